// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Rendering of located errors.
#include "compiler/Support/Diagnostic.h"

#include <algorithm>
#include <numeric>

namespace tilery {

std::string_view SourceText::line(int number) const {
  std::string_view rest = text;
  for (int current = firstLine; current < number; ++current) {
    size_t end = rest.find('\n');
    if (end == std::string_view::npos)
      return {};
    rest.remove_prefix(end + 1);
  }
  if (number < firstLine)
    return {};
  return rest.substr(0, rest.find('\n'));
}

SourceRange SourceRange::through(const SourceRange &last) const {
  SourceRange range = *this;
  range.endLine = last.endLine;
  range.endColumn = last.endColumn;
  return range;
}

std::string SourceRange::text() const {
  if (!source)
    return {};
  std::string_view whole = source->line(line);
  size_t begin = std::min<size_t>(column - 1, whole.size());
  size_t end = endLine == line ? std::min<size_t>(endColumn - 1, whole.size()) : whole.size();
  return std::string(whole.substr(begin, std::max(end, begin) - begin));
}

// Tabs stay tabs so that the carets stand under what they mean.
static std::string underline(std::string_view line, const SourceRange &range) {
  std::string marks;
  size_t begin = std::min<size_t>(range.column - 1, line.size());
  for (char c : line.substr(0, begin))
    marks += c == '\t' ? '\t' : ' ';
  size_t end = range.endLine == range.line ? size_t(range.endColumn - 1) : line.size();
  marks.append(std::max<size_t>(std::min(end, line.size()), begin + 1) - begin, '~');
  return marks;
}

std::string renderDiagnostic(const SourceRange &range, std::string_view severity,
                             const std::string &message) {
  std::string out;
  if (range.source)
    out = range.source->file + ":" + std::to_string(range.line) + ":" +
          std::to_string(range.column + range.source->indent) + ": ";
  out += std::string(severity) + ": " + message;
  std::string_view line = range.source ? range.source->line(range.line) : std::string_view();
  if (!line.empty()) {
    std::string indent(size_t(range.source->indent), ' ');
    out += "\n" + indent + std::string(line) + "\n" + indent + underline(line, range);
  }
  return out;
}

CompileError &&CompileError::note(const SourceRange &where, const std::string &text) && {
  rendered += "\n" + renderDiagnostic(where, "note", text);
  return std::move(*this);
}

CompileError &&CompileError::hint(const std::string &text) && {
  rendered += "\nhint: " + text;
  return std::move(*this);
}

static size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t(0));
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      size_t change = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({change, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

std::string nearestName(std::string_view name, const std::vector<std::string> &candidates) {
  size_t limit = std::max<size_t>(1, name.size() / 3);
  std::string best;
  for (const std::string &candidate : candidates) {
    size_t distance = editDistance(name, candidate);
    if (distance <= limit) {
      limit = distance ? distance - 1 : 0;
      best = candidate;
      if (distance == 0)
        break;
    }
  }
  return best;
}

} // namespace tilery
