// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Located errors in the user's words: file, line, column, the source with a caret range,
// notes with the other side, and a hint how to fix.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tilery {

/// Text of one source file or function, with the line number its first line has in the file.
struct SourceText {
  std::string file;
  int firstLine = 1;
  std::string text;
  /// Columns that each line has in the file before what `text` holds of it.
  int indent = 0;

  /// The line `number` of the file, without its line break; empty when outside the text.
  std::string_view line(int number) const;
};

/// Half-open range of columns; lines and columns count from 1.
struct SourceRange {
  const SourceText *source = nullptr;
  int line = 0, column = 0, endLine = 0, endColumn = 0;

  bool valid() const { return source != nullptr; }
  /// From the start of this to the end of `last`.
  SourceRange through(const SourceRange &last) const;
  /// The source text in the range, first line only.
  std::string text() const;
};

/// "file:line:col: <severity>: message", the line, and its range underlined.
std::string renderDiagnostic(const SourceRange &range, std::string_view severity,
                             const std::string &message);

/// An error in the user's program. Thrown inside the front end only; it never crosses MLIR.
/// The text is rendered at once: the source may be gone when the error is caught.
class CompileError : public std::exception {
public:
  CompileError(const SourceRange &range, const std::string &message)
      : message(message), rendered(renderDiagnostic(range, "error", message)) {}

  CompileError &&note(const SourceRange &where, const std::string &text) &&;
  CompileError &&hint(const std::string &text) &&;

  /// The whole text, notes and hints included.
  const std::string &render() const { return rendered; }
  const char *what() const noexcept override { return message.c_str(); }

private:
  std::string message;
  std::string rendered;
};

/// The candidate with the smallest edit distance, when it is near enough to be a typing error
/// (at most a third of the length, at least 1 change allowed); else empty.
std::string nearestName(std::string_view name, const std::vector<std::string> &candidates);

} // namespace tilery
