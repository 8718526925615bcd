// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Ratios of times as SVG.
#include "tools/tilery/contests.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

namespace tilery::cli {

namespace {

constexpr double PanelWidth = 270, PanelHeight = 230, Gap = 26, Left = 66, Top = 64, Bottom = 56,
                 LegendLine = 20;

// Readable on white and on #0d1117; the first three differ for colour-blind readers, too.
constexpr const char *Style = R"(<style>
text { font: 12px system-ui, sans-serif; fill: #1f2328 }
.title { font-size: 15px; font-weight: 600 }
.back { fill: #ffffff }
.grid { stroke: #d8dee4; stroke-width: 1 }
.even { stroke: #57606a; stroke-width: 1.5 }
.line { fill: none; stroke-width: 1.75 }
.eager { stroke-dasharray: 5 3 }
.s0 { stroke: #0969da; fill: #0969da } .s1 { stroke: #bc4c00; fill: #bc4c00 }
.s2 { stroke: #00795c; fill: #00795c } .s3 { stroke: #8250df; fill: #8250df }
.s4 { stroke: #8f6a00; fill: #8f6a00 } .s5 { stroke: #57606a; fill: #57606a }
.line, .line.s0, .line.s1, .line.s2, .line.s3, .line.s4, .line.s5 { fill: none }
.point.eager, .key.eager { fill: #ffffff; stroke-width: 1.5; stroke-dasharray: none }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.back { fill: #0d1117 }
.grid { stroke: #30363d }
.even { stroke: #8b949e }
.s0 { stroke: #58a6ff; fill: #58a6ff } .s1 { stroke: #ffa657; fill: #ffa657 }
.s2 { stroke: #3ddc97; fill: #3ddc97 } .s3 { stroke: #d2a8ff; fill: #d2a8ff }
.s4 { stroke: #e3b341; fill: #e3b341 } .s5 { stroke: #b1bac4; fill: #b1bac4 }
.point.eager, .key.eager { fill: #0d1117 }
}
</style>
)";

/// Of a value's logarithm, linearly.
struct Axis {
  double least, most, from, to; // values, and their places
  double place(double value) const {
    return from + (to - from) * std::log(value / least) / std::log(most / least);
  }
};

class Plot {
public:
  explicit Plot(const Contests &contests);
  std::string draw();

private:
  void drawPanel(size_t index, const std::string &op);
  void drawScales(const Axis &across, const Axis &up);
  void drawSeries(const Axis &across, const Axis &up, const std::vector<const Contest *> &series);
  void drawLegend(double y);
  void addText(double x, double y, const char *anchor, const std::string &text,
               const char *kind = "label");
  void addMark(double x, double y, const std::string &kind, const Contest &contest,
               const std::string &title);
  template <typename... Parts> void add(fmt::format_string<Parts...> format, Parts &&...parts) {
    fmt::format_to(std::back_inserter(svg), format, std::forward<Parts>(parts)...);
  }
  std::string colour(const std::string &shape) const;
  std::string valueOf(double at) const;

  const Contests &contests;
  std::vector<std::string> ops, shapes;
  std::set<double> places;
  double least = 0.8, most = 1.25;
  std::string svg;
};

std::string escaped(const std::string &text) {
  std::string safe;
  for (char c : text)
    safe += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  return safe;
}

void addNew(std::vector<std::string> &names, const std::string &name) {
  if (std::ranges::find(names, name) == names.end())
    names.push_back(name);
}

std::string classOf(const Contest &contest) { return contest.inGraph ? "" : " eager"; }

std::string labelOf(const std::string &peer, bool inGraph) {
  return peer + (inGraph ? ", in CUDA graphs" : ", without graphs");
}

Plot::Plot(const Contests &contests) : contests(contests) {
  for (const Contest &contest : contests.all) {
    addNew(ops, contest.op);
    addNew(shapes, contest.shape);
    places.insert(contest.at);
    least = std::min(least, contest.ratio / 1.1);
    most = std::max(most, contest.ratio * 1.1);
  }
}

void Plot::addText(double x, double y, const char *anchor, const std::string &text,
                   const char *kind) {
  add("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", kind, x, y,
      anchor, escaped(text));
}

// Shapes beyond the colours share the last one, which is grey and that of no shape, too.
std::string Plot::colour(const std::string &shape) const {
  auto found = std::ranges::find(shapes, shape);
  ptrdiff_t grey = 5;
  return fmt::format("s{}", found == shapes.end() ? grey : std::min(found - shapes.begin(), grey));
}

std::string Plot::valueOf(double at) const {
  if (contests.ofBytes)
    for (auto [unit, name] :
         {std::pair(1 << 30, "G"), std::pair(1 << 20, "M"), std::pair(1 << 10, "K")})
      if (at >= unit)
        return fmt::format("{:.4g}{}", at / unit, name);
  return fmt::format("{:.0f}", at);
}

// A circle beside NCCL, a square beside torch.
void Plot::addMark(double x, double y, const std::string &kind, const Contest &contest,
                   const std::string &title) {
  std::string what = fmt::format("{} {}{}", kind, colour(contest.shape), classOf(contest));
  std::string inside = title.empty() ? "" : fmt::format("<title>{}</title>", escaped(title));
  if (contest.peer == "torch")
    add("<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"7\" height=\"7\">{}</rect>\n", what,
        x - 3.5, y - 3.5, inside);
  else
    add("<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.8\">{}</circle>\n", what, x, y,
        inside);
}

void Plot::drawScales(const Axis &across, const Axis &up) {
  double last = -1e9; // labels that would overlap are left out
  for (double at : places) {
    double x = across.place(at);
    add("<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\"/>\n", x,
        up.from, up.to);
    if (x - last < 30)
      continue;
    addText(x, up.from + 16, "middle", valueOf(at));
    last = x;
  }
  for (double tick : {0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0}) {
    if (tick <= least || tick >= most)
      continue;
    double y = up.place(tick);
    add("<line class=\"{}\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>\n",
        tick == 1 ? "even" : "grid", across.from, across.to, y, y);
    if (across.from < Left + PanelWidth) // the first panel
      addText(Left - 8, y + 4, "end", fmt::format("{:g}", tick));
  }
}

void Plot::drawSeries(const Axis &across, const Axis &up,
                      const std::vector<const Contest *> &series) {
  const Contest &first = *series.front();
  std::string points;
  for (const Contest *contest : series)
    points += fmt::format("{:.1f},{:.1f} ", across.place(contest->at), up.place(contest->ratio));
  add("<polyline class=\"line {}{}\" points=\"{}\"/>\n", colour(first.shape), classOf(first),
      points);
  for (const Contest *contest : series)
    addMark(across.place(contest->at), up.place(contest->ratio), "point", *contest,
            fmt::format("{} {} {}: {:.2f} beside {}", contest->op, valueOf(contest->at),
                        contest->shape, contest->ratio, labelOf(contest->peer, contest->inGraph)));
}

void Plot::drawPanel(size_t index, const std::string &op) {
  double left = Left + double(index) * (PanelWidth + Gap), middle = left + PanelWidth / 2;
  double first = *places.begin(), last = std::max(*places.rbegin(), 2 * first);
  constexpr double Inside = 16;
  Axis across{first, last, left + Inside, left + PanelWidth - Inside};
  Axis up{least, most, Top + PanelHeight, Top};
  addText(middle, Top - 10, "middle", op, "title");
  drawScales(across, up);
  addText(middle, Top + PanelHeight + 36, "middle",
          contests.ofBytes ? "bytes of a rank" : "M (rows)", "axis");
  std::map<std::tuple<std::string, bool, std::string>, std::vector<const Contest *>> all;
  for (const Contest &contest : contests.all)
    if (contest.op == op)
      all[{contest.peer, contest.inGraph, contest.shape}].push_back(&contest);
  for (auto &[key, series] : all) {
    std::ranges::sort(series, {}, [](const Contest *contest) { return contest->at; });
    drawSeries(across, up, series);
  }
}

void Plot::drawLegend(double y) {
  std::map<std::pair<std::string, bool>, Contest> peers;
  for (const Contest &contest : contests.all)
    peers.try_emplace({contest.peer, contest.inGraph}, contest);
  double x = Left + 16;
  for (const std::string &shape : shapes)
    if (!shape.empty()) {
      add("<line class=\"line {0}\" x1=\"{1:.1f}\" x2=\"{2:.1f}\" y1=\"{3:.1f}\" "
          "y2=\"{3:.1f}\"/>\n",
          colour(shape), x, x + 22, y - 4);
      addText(x + 28, y, "start", "N x K = " + shape, "legend");
      x += 170;
    }
  x = Left + 16;
  y += shapes.front().empty() ? 0 : LegendLine;
  for (const auto &[key, contest] : peers) {
    Contest any = contest;
    any.shape = "any";
    addMark(x + 11, y - 4, "key", any, "");
    addText(x + 28, y, "start", labelOf(key.first, key.second), "legend");
    x += 250;
  }
}

std::string Plot::draw() {
  double width = std::max(Left + double(ops.size()) * (PanelWidth + Gap), 620.0);
  double height = Top + PanelHeight + Bottom + 2.5 * LegendLine;
  add("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" role=\"img\">\n<title>Times of peers, relative to tilery, on "
      "{2}</title>\n",
      width, height, escaped(contests.title));
  svg += Style;
  add("<rect class=\"back\" width=\"{:.0f}\" height=\"{:.0f}\"/>\n", width, height);
  addText(Left, 22, "start", contests.title + ": above 1, tilery is faster", "title");
  double middle = Top + PanelHeight / 2;
  add("<text class=\"axis\" text-anchor=\"middle\" transform=\"translate(18 {:.1f}) rotate(-90)\">"
      "time of the peer / time of tilery</text>\n",
      middle);
  for (size_t i = 0; i < ops.size(); ++i)
    drawPanel(i, ops[i]);
  drawLegend(Top + PanelHeight + Bottom + LegendLine / 2);
  svg += "</svg>\n";
  return std::move(svg);
}

} // namespace

std::string plotOf(const Contests &contests) { return Plot(contests).draw(); }

} // namespace tilery::cli
