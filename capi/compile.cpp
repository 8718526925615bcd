// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// One specialisation from source to loaded code, through the disk cache.
#include "capi/bindings.h"
#include "capi/function.h"
#include "capi/kernel_cache.h"
#include "capi/load_device.h"
#include "compiler/Dialect/Core/Analysis/WrittenArguments.h"
#include "compiler/Pipeline/Lower.h"
#include "runtime/base/knobs.h"
#include "runtime/base/log.h"

#include "tilery/gpu_abi.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/FileSystem.h"

using namespace tilery;
using namespace tilery::capi;

namespace {

mlir::FileLineColRange placeOf(mlir::Location location) {
  mlir::FileLineColRange found;
  location->walk([&](mlir::Location part) {
    found = llvm::dyn_cast<mlir::FileLineColRange>(part);
    return found ? mlir::WalkResult::interrupt() : mlir::WalkResult::advance();
  });
  return found;
}

std::string renderAt(mlir::Location location, const SourceText &source, const char *severity,
                     const std::string &message) {
  mlir::FileLineColRange place = placeOf(location);
  if (!place)
    return renderDiagnostic({}, severity, message);
  SourceText elsewhere{place.getFilename().str(), 1, ""};
  bool here = place.getFilename() == source.file;
  int indent = here ? source.indent : 0;
  SourceRange range{here ? &source : &elsewhere, int(place.getStartLine()),
                    int(place.getStartColumn()) - indent, int(place.getEndLine()),
                    int(place.getEndColumn()) - indent};
  return renderDiagnostic(range, severity, message);
}

/// Collects what passes say, in the form of the front end's errors.
class Diagnostics {
public:
  Diagnostics(mlir::MLIRContext &context, const SourceText &source)
      : handler(&context, [this, &source](mlir::Diagnostic &diagnostic) {
          if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Warning)
            rt::warn(renderAt(diagnostic.getLocation(), source, "warning", diagnostic.str()));
          if (diagnostic.getSeverity() != mlir::DiagnosticSeverity::Error)
            return;
          text += (text.empty() ? "" : "\n") +
                  renderAt(diagnostic.getLocation(), source, "error", diagnostic.str());
          for (mlir::Diagnostic &note : diagnostic.getNotes())
            text += "\n" + renderAt(note.getLocation(), source, "note", note.str());
        }) {}
  std::string text;

private:
  mlir::ScopedDiagnosticHandler handler;
};

/// Generated core + device IR with its context.
struct Generated {
  Generated(const tilery_function &function, const std::vector<frontend::ParameterSpec> &specs,
            frontend::Checks checks)
      : source(function.value.module->sourceText()), context(registry(), mlir::MLIRContext::Threading::DISABLED),
        diagnostics(context, source) {
    context.loadAllAvailableDialects();
    context.printOpOnDiagnostic(false); // users know their source, not our operations
    frontend::GeneratedKernel generated = frontend::generateKernel(context, function.value, specs, checks);
    module = std::move(generated.module);
    for (const std::string &warning : generated.warnings)
      rt::warn(warning);
    if (mlir::verify(*module).failed())
      fail("the front end made invalid IR");
  }

  [[noreturn]] void fail(const std::string &what) {
    if (!diagnostics.text.empty())
      throw rt::Error(TILERY_COMPILE_ERROR, diagnostics.text);
    throw rt::Error(TILERY_INTERNAL_ERROR, what + "; this is a bug in tilery");
  }

  CompiledCode compile(const Target &target, const LowerOptions &options) {
    mlir::func::FuncOp kernel = *module->getOps<mlir::func::FuncOp>().begin();
    mlir::FileLineColRange place = placeOf(kernel.getLoc());
    std::string name = fmt::format("kernel '{}' ({}:{})", kernel.getName().str(), source.file,
                                   place ? place.getStartLine() : 0);
    llvm::Expected<CompiledCode> code = compileModule(*module, target, options);
    if (!code)
      fail(name + ": " + llvm::toString(code.takeError()));
    return std::move(*code);
  }

  static mlir::DialectRegistry registry() {
    mlir::DialectRegistry registry;
    registerLoweringDialects(registry);
    return registry;
  }

  const SourceText &source;
  mlir::MLIRContext context;
  Diagnostics diagnostics;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

std::string printWithPlaces(mlir::ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, mlir::OpPrintingFlags().enableDebugInfo());
  return text;
}

rt::KernelParameter describeParameter(const std::string &name, const frontend::ElementType &element) {
  using Kind = frontend::ElementType::Kind;
  rt::KernelParameter parameter;
  parameter.name = name;
  parameter.kind = element.kind == Kind::Scalar      ? rt::KernelParameter::Kind::Scalar
                   : element.kind == Kind::Signal    ? rt::KernelParameter::Kind::Signal
                   : element.kind == Kind::Symmetric ? rt::KernelParameter::Kind::SymmetricPointer
                                                     : rt::KernelParameter::Kind::Pointer;
  std::string dtype = frontend::nameOf(element.dtype);
  parameter.type = element.kind == Kind::Scalar ? dtype : element.kind == Kind::Signal ? "signal" : "*" + dtype;
  return parameter;
}

// The statement from its column on: "dl.wait(ready + owner, waitValue=8)".
std::string textAt(const SourceText &source, const SourceSite &site) {
  if (site.file != source.file)
    return {};
  llvm::StringRef line(source.line(site.line));
  size_t begin = size_t(std::max(site.column - 1 - source.indent, 0));
  return line.drop_front(std::min(begin, line.size())).rtrim().str();
}

// Arguments of the function are the run-time parameters in order.
void findWritten(tilery_kernel &kernel, mlir::ModuleOp module) {
  llvm::BitVector arguments =
      core::writtenArguments(*module.getOps<mlir::func::FuncOp>().begin());
  kernel.written.resize(kernel.specs.size());
  for (unsigned argument = 0, i = 0; i < kernel.specs.size(); ++i)
    if (!kernel.specs[i].constant && arguments.test(argument++))
      kernel.written.set(i);
}

void fillImage(tilery_kernel &kernel, const KernelInfo &info, const SourceText &source) {
  rt::KernelImage &image = kernel.image;
  image.name = info.name;
  image.scratchBytes = info.scratchBytes;
  image.suspends = info.suspends;
  image.communicates = info.communicates;
  image.extents = info.extents;
  image.peers = info.peers;
  for (const SourceSite &site : info.sites)
    image.sites.push_back({site.file, site.line, site.column, textAt(source, site)});
  for (size_t i = 0; i < kernel.specs.size(); ++i) {
    if (kernel.specs[i].constant)
      continue;
    kernel.runTimeParameters.push_back(int32_t(i));
    image.parameters.push_back(
        describeParameter(kernel.function->parameters[i].name, kernel.specs[i].element));
  }
}

template <typename T> T take(llvm::Expected<T> value, const char *what) {
  if (!value)
    rt::raise(TILERY_INTERNAL_ERROR, "{}: {}; this is a bug in tilery", what,
              llvm::toString(value.takeError()));
  return std::move(*value);
}

} // namespace

static std::vector<std::string> stagesOf(const Target &target) {
  return {"core", target.tileStage().str(), "llvm", target.assemblyStage().str()};
}

static void writeFile(const std::string &path, const std::string &text) {
  std::error_code error;
  llvm::raw_fd_ostream stream(path, error);
  if (error)
    rt::raise(TILERY_CONFIG_ERROR, "cannot write '{}': {}", path, error.message());
  stream << text;
}

// TILERY_DUMP_IR: one file a stage, named after the kernel and its key.
static void dumpTexts(tilery_kernel &kernel) {
  const std::string &directory = rt::knobs().dumpIr;
  if (directory.empty())
    return;
  llvm::sys::fs::create_directories(directory);
  for (const std::string &stage : stagesOf(*kernel.target))
    writeFile(directory + "/" + kernel.image.name + "." + kernel.key.substr(0, 8) + "." + stage,
              capi::kernelText(kernel, stage));
}

static void load(tilery_kernel &kernel, const Machine &machine, const CompiledCode &code) {
  if (machine.device.driver)
    return loadOnDevice(kernel.image, machine, code);
  if (!machine.isHost)
    return;
  kernel.code = take(cpu::LoadedObject::load(code.object), "the object does not load");
  kernel.image.entry = take(kernel.code->entry(kernel.image.name), "the object has no entry");
}

std::unique_ptr<tilery_kernel> capi::compileKernel(const tilery_function &function,
                                                   std::vector<frontend::ParameterSpec> specs,
                                                   const Machine &machine) {
  const Target &target = machine.target;
  auto kernel = std::make_unique<tilery_kernel>();
  kernel->function = &function;
  kernel->specs = std::move(specs);
  kernel->target = &target;
  kernel->checks = machine.checks;
  Generated generated(function, kernel->specs, kernel->checks);
  kernel->key = cacheKey(printWithPlaces(*generated.module), target);
  findWritten(*kernel, *generated.module);
  std::optional<CompiledCode> code = loadCached(kernel->key);
  kernel->cached = code.has_value();
  if (!code) {
    code = generated.compile(target, {});
    storeCached(kernel->key, *code);
  }
  kernel->info = code->kernels.at(0);
  fillImage(*kernel, kernel->info, generated.source);
  load(*kernel, machine, *code);
  kernel->object = std::move(code->object);
  dumpTexts(*kernel);
  return kernel;
}

static std::string metadata(const tilery_kernel &kernel) {
  namespace json = llvm::json;
  json::Array parameters, sites;
  for (const rt::KernelParameter &parameter : kernel.image.parameters)
    parameters.push_back(json::Object{{"name", parameter.name}, {"type", parameter.type},
        {"symmetric", parameter.kind == rt::KernelParameter::Kind::SymmetricPointer ||
                          parameter.kind == rt::KernelParameter::Kind::Signal}});
  for (const rt::SourceSite &site : kernel.image.sites)
    sites.push_back(json::Object{{"file", site.file}, {"line", site.line},
                                 {"column", site.column}, {"text", site.text}});
  std::string text;
  json::Object described{
      {"name", kernel.image.name}, {"abi", TILERY_KERNEL_ABI},
      {"scratch_bytes", kernel.image.scratchBytes}, {"suspends", kernel.image.suspends},
      {"communicates", kernel.image.communicates}, {"parameters", std::move(parameters)},
      {"extents", json::Array(kernel.image.extents)}, {"peers", json::Array(kernel.image.peers)},
      {"sites", std::move(sites)}, {"target", kernel.target->description()},
      {"key", kernel.key}, {"cached", kernel.cached}};
  if (kernel.info.threads > 0) {
    described["abi"] = TILERY_GPU_ABI;
    described["threads"] = kernel.info.threads;
    described["shared_bytes"] = kernel.info.sharedBytes;
    described["cluster"] = json::Array(kernel.info.clusterExtent);
    described["tensor_maps"] = int64_t(kernel.info.tensorMaps.size());
  }
  llvm::raw_string_ostream(text) << json::Value(std::move(described));
  return text;
}

const std::string &capi::kernelText(tilery_kernel &kernel, const std::string &stage) {
  if (stage == "metadata")
    return kernel.texts[stage] = metadata(kernel);
  std::vector<std::string> stages = stagesOf(*kernel.target);
  if (!llvm::is_contained(stages, stage))
    rt::raise(TILERY_CONFIG_ERROR, "a kernel has the stages {} and metadata, not '{}'",
              fmt::join(stages, ", "), stage);
  if (kernel.texts[stage].empty()) {
    CompiledCode code =
        Generated(*kernel.function, kernel.specs, kernel.checks).compile(*kernel.target, {stages});
    for (auto &[name, text] : code.text)
      kernel.texts[name] = std::move(text);
  }
  return kernel.texts[stage];
}

extern "C" tilery_status tilery_kernel_write_object(tilery_kernel *kernel, const char *path) {
  return guardedCompile([&] {
    require(kernel, "the kernel");
    require(path, "the path");
    writeFile(path, kernel->object);
    writeFile(std::string(path) + ".json", metadata(*kernel));
  });
}
