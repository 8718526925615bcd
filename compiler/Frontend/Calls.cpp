// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Calls: functions of the language, the user's jit functions (inlined), lambdas.
#include "compiler/Frontend/Generator.h"

using namespace mlir;

namespace tilery::frontend {

using Keywords = std::vector<std::pair<std::string, Value>>;

Value Generator::call(const Value &callee, std::vector<Value> arguments, Keywords keywords) {
  if (auto *builtin = callee.get<BuiltinValue>())
    return callBuiltin(*builtin->builtin, std::move(arguments), keywords);
  if (auto *method = callee.get<MethodValue>()) {
    arguments.insert(arguments.begin(), *method->self);
    return callBuiltin(*method->builtin, std::move(arguments), keywords);
  }
  if (auto *function = callee.get<FunctionValue>())
    return callFunction(*function, std::move(arguments), keywords);
  if (auto *lambda = callee.get<std::shared_ptr<LambdaValue>>()) {
    if (!keywords.empty())
      fail("a lambda takes no keywords");
    return callLambda(**lambda, std::move(arguments));
  }
  if (auto *tuple = callee.get<TupleClass>())
    return makeNamedTuple(*tuple, std::move(arguments), keywords);
  if (auto *type = callee.get<TypeValue>(); type && type->element.isScalar()) {
    if (arguments.size() != 1)
      fail("a type converts one value");
    return cast(toTile(arguments[0]), type->element.dtype);
  }
  fail(callee.describe() + " cannot be called");
}

static std::vector<std::string> parameterNames(const Builtin &builtin) {
  std::vector<std::string> names;
  for (const BuiltinParameter &parameter : builtin.parameters)
    names.push_back(parameter.name);
  return names;
}

Value Generator::callBuiltin(const Builtin &builtin, std::vector<Value> given,
                             const Keywords &keywords) {
  size_t count = builtin.parameters.size();
  std::vector<std::optional<Value>> bound(count);
  size_t next = 0;
  for (size_t i = 0; i < count && next < given.size(); ++i) {
    if (!builtin.parameters[i].variadic) {
      bound[i] = std::move(given[next++]);
      continue;
    }
    std::vector<Value> rest(std::make_move_iterator(given.begin() + next),
                            std::make_move_iterator(given.end()));
    bound[i] = makeTuple(std::move(rest));
    next = given.size();
  }
  if (next < given.size())
    fail("'" + builtin.name + "' takes at most " + std::to_string(count) + " arguments, not " +
         std::to_string(given.size()));
  for (const auto &[name, value] : keywords) {
    auto names = parameterNames(builtin);
    size_t index = std::find(names.begin(), names.end(), name) - names.begin();
    if (index == count) {
      std::string nearest = nearestName(name, names);
      fail("'" + builtin.name + "' has no argument '" + name + "'",
           nearest.empty() ? "" : "did you mean '" + nearest + "'?");
    }
    if (bound[index])
      fail("argument '" + name + "' of '" + builtin.name + "' is given twice");
    bound[index] = value;
  }
  Arguments arguments;
  for (size_t i = 0; i < count; ++i) {
    const BuiltinParameter &parameter = builtin.parameters[i];
    if (!bound[i] && parameter.variadic)
      bound[i] = makeTuple({});
    if (!bound[i] && !parameter.defaultValue)
      fail("'" + builtin.name + "' needs the argument '" + parameter.name + "'");
    arguments.push_back(bound[i] ? *bound[i] : *parameter.defaultValue);
  }
  return builtin.emit(*this, arguments);
}

Value Generator::defaultOf(const Parameter &parameter) {
  return evaluateConstant(*frame->module, *parameter.defaultValue);
}

// tl.constexpr in a callee's signature is not enforced, as in Triton: a call is inlined, and what
// is constant stays so.
void Generator::bindParameters(const FunctionDef &definition, std::vector<Value> given,
                               const Keywords &keywords, Scope &scope) {
  size_t next = 0;
  for (const Parameter &parameter : definition.parameters) {
    if (parameter.form == Parameter::Form::VarArgs) {
      std::vector<Value> rest(given.begin() + next, given.end());
      next = given.size();
      scope.names[parameter.name] = makeTuple(std::move(rest));
      continue;
    }
    auto keyword = std::find_if(keywords.begin(), keywords.end(),
                                [&](const auto &pair) { return pair.first == parameter.name; });
    Value value;
    if (parameter.form == Parameter::Form::Plain && next < given.size()) {
      if (keyword != keywords.end())
        fail("argument '" + parameter.name + "' of '" + definition.name + "' is given twice");
      value = given[next++];
    } else if (keyword != keywords.end()) {
      value = keyword->second;
    } else if (parameter.defaultValue) {
      value = defaultOf(parameter);
    } else {
      fail("'" + definition.name + "' needs the argument '" + parameter.name + "'");
    }
    value.assigned = parameter.range;
    scope.names[parameter.name] = std::move(value);
  }
  if (next < given.size())
    fail("'" + definition.name + "' takes " + std::to_string(definition.parameters.size()) +
         " arguments, not " + std::to_string(given.size()));
  for (const auto &[name, value] : keywords)
    if (!scope.names.contains(name)) {
      std::vector<std::string> names;
      for (const Parameter &parameter : definition.parameters)
        names.push_back(parameter.name);
      std::string nearest = nearestName(name, names);
      fail("'" + definition.name + "' has no argument '" + name + "'",
           nearest.empty() ? "" : "did you mean '" + nearest + "'?");
    }
}

Value Generator::callFunction(const FunctionValue &function, std::vector<Value> arguments,
                              const Keywords &keywords) {
  if (callSites.size() >= 64)
    fail("calls are nested more than 64 deep", "a kernel function cannot call itself");
  Frame inner;
  inner.module = function.module;
  inner.definition = function.definition.get();
  inner.scope = makeScope();
  Frame *outer = frame;
  mlir::Location site = constantsOnly ? builder.getUnknownLoc() : loc();
  frame = &inner;
  struct Restore { // also when an error is thrown
    Generator &gen;
    Frame *outer;
    size_t depth;
    ~Restore() {
      gen.frame = outer;
      gen.callSites.resize(depth, UnknownLoc::get(gen.builder.getContext()));
    }
  } restore{*this, outer, callSites.size()};
  bindParameters(*function.definition, std::move(arguments), keywords, *inner.scope);
  callSites.push_back(site);
  runBlock(function.definition->body, 0, nullptr);
  return inner.returned;
}

Value Generator::makeNamedTuple(const TupleClass &tuple, std::vector<Value> given,
                                const Keywords &keywords) {
  const TupleFields &fields = *tuple.fields;
  if (given.size() > fields.names.size())
    fail("'" + fields.className + "' has " + std::to_string(fields.names.size()) +
         " fields, but " + std::to_string(given.size()) + " values are given");
  std::vector<std::optional<Value>> bound(fields.names.size());
  for (size_t i = 0; i < given.size(); ++i)
    bound[i] = given[i];
  for (const auto &[name, value] : keywords) {
    size_t at = size_t(llvm::find(fields.names, name) - fields.names.begin());
    if (at == fields.names.size())
      fail("'" + fields.className + "' has no field '" + name + "'");
    if (bound[at])
      fail("field '" + name + "' of '" + fields.className + "' is given twice");
    bound[at] = value;
  }
  std::vector<Value> elements;
  for (size_t i = 0; i < bound.size(); ++i) {
    if (!bound[i] && !fields.defaults[i])
      fail("'" + fields.className + "' needs the field '" + fields.names[i] + "'");
    elements.push_back(bound[i] ? *bound[i] : *fields.defaults[i]);
  }
  return makeTuple(std::move(elements), tuple.fields);
}

Value Generator::callLambda(const LambdaValue &lambda, std::vector<Value> arguments) {
  if (arguments.size() != lambda.expr->parameters.size())
    fail("this lambda takes " + std::to_string(lambda.expr->parameters.size()) +
         " arguments, not " + std::to_string(arguments.size()));
  auto scope = makeScope();
  scope->parent = lambda.scope;
  for (auto [name, value] : llvm::zip(lambda.expr->parameters, arguments))
    scope->names[name] = value;
  std::shared_ptr<Scope> outer = frame->scope;
  frame->scope = scope;
  Value result = evaluate(*lambda.expr->body);
  frame->scope = outer;
  return result;
}

} // namespace tilery::frontend
