// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Syntax tree of the kernel language's Python subset (language.md, section 1).
#pragma once

#include "compiler/Support/Diagnostic.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tilery::frontend {

struct Expr;
struct Stmt;
using ExprPtr = std::unique_ptr<Expr>;
using StmtPtr = std::unique_ptr<Stmt>;
using Block = std::vector<StmtPtr>;

enum class UnaryOp { Plus, Minus, Not, Invert };
enum class BinaryOp { Add, Sub, Mul, Div, FloorDiv, Mod, Pow, And, Or, Xor, Shl, Shr, MatMul };
enum class CompareOp { EQ, NE, LT, LE, GT, GE, Is, IsNot, In, NotIn };

/// "+", "//", "==", as the user wrote them.
const char *spelling(UnaryOp op);
const char *spelling(BinaryOp op);
const char *spelling(CompareOp op);

struct Expr {
  enum class Kind {
    Name, Int, Float, String, Bool, None, Ellipsis, Unary, Binary, Compare, Logical, Conditional,
    Call, Attribute, Subscript, Slice, Tuple, List, Lambda, FString, Starred
  };
  Expr(Kind kind, SourceRange range) : kind(kind), range(range) {}
  virtual ~Expr() = default;
  const Kind kind;
  SourceRange range;
};

template <Expr::Kind K> struct ExprOf : Expr {
  static constexpr Kind kindOf = K;
  explicit ExprOf(SourceRange range) : Expr(K, range) {}
  static bool classof(const Expr *expr) { return expr->kind == K; }
};

struct NameExpr : ExprOf<Expr::Kind::Name> {
  using ExprOf::ExprOf;
  std::string name;
};
struct IntExpr : ExprOf<Expr::Kind::Int> {
  using ExprOf::ExprOf;
  __int128 value = 0;
};
struct FloatExpr : ExprOf<Expr::Kind::Float> {
  using ExprOf::ExprOf;
  double value = 0;
};
struct StringExpr : ExprOf<Expr::Kind::String> {
  using ExprOf::ExprOf;
  std::string value;
};
struct BoolExpr : ExprOf<Expr::Kind::Bool> {
  using ExprOf::ExprOf;
  bool value = false;
};
struct NoneExpr : ExprOf<Expr::Kind::None> {
  using ExprOf::ExprOf;
};
struct EllipsisExpr : ExprOf<Expr::Kind::Ellipsis> {
  using ExprOf::ExprOf;
};
struct UnaryExpr : ExprOf<Expr::Kind::Unary> {
  using ExprOf::ExprOf;
  UnaryOp op = UnaryOp::Plus;
  ExprPtr operand;
};
struct BinaryExpr : ExprOf<Expr::Kind::Binary> {
  using ExprOf::ExprOf;
  BinaryOp op = BinaryOp::Add;
  ExprPtr lhs, rhs;
};
/// a < b <= c: operands has one more element than ops.
struct CompareExpr : ExprOf<Expr::Kind::Compare> {
  using ExprOf::ExprOf;
  std::vector<CompareOp> ops;
  std::vector<ExprPtr> operands;
};
struct LogicalExpr : ExprOf<Expr::Kind::Logical> {
  using ExprOf::ExprOf;
  bool isAnd = true;
  std::vector<ExprPtr> operands;
};
struct ConditionalExpr : ExprOf<Expr::Kind::Conditional> {
  using ExprOf::ExprOf;
  ExprPtr condition, whenTrue, whenFalse;
};
struct Keyword {
  std::string name; // empty for **value
  SourceRange range;
  ExprPtr value;
};
struct CallExpr : ExprOf<Expr::Kind::Call> {
  using ExprOf::ExprOf;
  ExprPtr callee;
  std::vector<ExprPtr> arguments; // StarredExpr for *value
  std::vector<Keyword> keywords;
};
struct AttributeExpr : ExprOf<Expr::Kind::Attribute> {
  using ExprOf::ExprOf;
  ExprPtr value;
  std::string name;
};
struct SubscriptExpr : ExprOf<Expr::Kind::Subscript> {
  using ExprOf::ExprOf;
  ExprPtr value;
  std::vector<ExprPtr> indices;
};
struct SliceExpr : ExprOf<Expr::Kind::Slice> {
  using ExprOf::ExprOf;
  ExprPtr lower, upper, step; // each may be null
};
struct TupleExpr : ExprOf<Expr::Kind::Tuple> {
  using ExprOf::ExprOf;
  std::vector<ExprPtr> elements;
};
struct ListExpr : ExprOf<Expr::Kind::List> {
  using ExprOf::ExprOf;
  std::vector<ExprPtr> elements;
};
struct LambdaExpr : ExprOf<Expr::Kind::Lambda> {
  using ExprOf::ExprOf;
  std::vector<std::string> parameters;
  ExprPtr body;
};
/// f"...{expr}...": literal pieces around the expressions; pieces has one more element.
struct FStringExpr : ExprOf<Expr::Kind::FString> {
  using ExprOf::ExprOf;
  std::vector<std::string> pieces;
  std::vector<ExprPtr> values;
};
struct StarredExpr : ExprOf<Expr::Kind::Starred> {
  using ExprOf::ExprOf;
  ExprPtr value;
};

struct Stmt {
  enum class Kind { Assign, AugAssign, AnnAssign, Expression, If, For, While, Return, Pass, Assert };
  Stmt(Kind kind, SourceRange range) : kind(kind), range(range) {}
  virtual ~Stmt() = default;
  const Kind kind;
  SourceRange range;
};

template <Stmt::Kind K> struct StmtOf : Stmt {
  static constexpr Kind kindOf = K;
  explicit StmtOf(SourceRange range) : Stmt(K, range) {}
  static bool classof(const Stmt *stmt) { return stmt->kind == K; }
};

struct AssignStmt : StmtOf<Stmt::Kind::Assign> {
  using StmtOf::StmtOf;
  std::vector<ExprPtr> targets; // a = b = value
  ExprPtr value;
};
struct AugAssignStmt : StmtOf<Stmt::Kind::AugAssign> {
  using StmtOf::StmtOf;
  ExprPtr target;
  BinaryOp op = BinaryOp::Add;
  ExprPtr value;
};
struct AnnAssignStmt : StmtOf<Stmt::Kind::AnnAssign> {
  using StmtOf::StmtOf;
  ExprPtr target, annotation, value; // value may be null
};
struct ExprStmt : StmtOf<Stmt::Kind::Expression> {
  using StmtOf::StmtOf;
  ExprPtr value;
};
struct IfStmt : StmtOf<Stmt::Kind::If> {
  using StmtOf::StmtOf;
  ExprPtr condition;
  Block thenBody, elseBody;
};
struct ForStmt : StmtOf<Stmt::Kind::For> {
  using StmtOf::StmtOf;
  ExprPtr target, iterable;
  Block body;
};
struct WhileStmt : StmtOf<Stmt::Kind::While> {
  using StmtOf::StmtOf;
  ExprPtr condition;
  Block body;
};
struct ReturnStmt : StmtOf<Stmt::Kind::Return> {
  using StmtOf::StmtOf;
  ExprPtr value; // may be null
};
struct PassStmt : StmtOf<Stmt::Kind::Pass> {
  using StmtOf::StmtOf;
};
struct AssertStmt : StmtOf<Stmt::Kind::Assert> {
  using StmtOf::StmtOf;
  ExprPtr condition, message; // message may be null
};

struct Parameter {
  std::string name;
  SourceRange range;
  ExprPtr annotation, defaultValue; // each may be null
  enum class Form { Plain, VarArgs, KeywordOnly } form = Form::Plain;
};

struct FunctionDef {
  std::string name;
  SourceRange range; // the `def` line
  std::vector<ExprPtr> decorators;
  std::vector<Parameter> parameters;
  Block body;
};

} // namespace tilery::frontend
