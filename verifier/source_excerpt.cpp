#include "verifier/source_excerpt.h"

#include <algorithm>
#include <cstdint>
#include <ostream>

namespace shardproof::verifier {

namespace {

constexpr std::size_t kMaxDiffLines = 12;  // of each sign, per edited place
constexpr std::string_view kCut = "...";

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

// Length of the valid UTF-8 sequence at the start of `text` (0: none) and its code point.
std::size_t decode(std::string_view text, std::uint32_t& code_point) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])); };
  const std::uint32_t first = byte(0);
  if (first < 0x80) {
    code_point = first;
    return 1;
  }
  const std::size_t length = first >= 0xF0 && first < 0xF5   ? 4
                             : first >= 0xE0 && first < 0xF0 ? 3
                             : first >= 0xC2 && first < 0xE0 ? 2
                                                             : 0;
  if (length == 0 || text.size() < length) return 0;
  code_point = first & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if (!is_continuation(text[i])) return 0;
    code_point = code_point << 6 | (byte(i) & 0x3FU);
  }
  constexpr std::uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code_point >= 0xD800 && code_point < 0xE000;
  return code_point < kSmallest[length] || surrogate || code_point > 0x10FFFF ? 0 : length;
}

bool is_unsafe(std::uint32_t c) {
  const bool control = c < 0x20 || (c >= 0x7F && c < 0xA0);
  const bool direction = c == 0x200E || c == 0x200F || (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
  return control || direction || c == 0x2028 || c == 0x2029;
}

// Text safe to print, and for each byte of the original the column its glyph starts at.
struct Display {
  std::string text;
  std::vector<std::size_t> column;  // size: bytes + 1
};

Display display(std::string_view bytes) {
  Display shown;
  std::size_t column = 0;
  for (std::size_t i = 0; i < bytes.size();) {
    std::uint32_t code_point = 0;
    const std::size_t length = decode(bytes.substr(i), code_point);
    if (length > 0 && !is_unsafe(code_point)) {
      shown.text.append(bytes.substr(i, length));
    } else {
      shown.text += bytes[i] == '\t' ? ' ' : '?';
    }
    const std::size_t taken = std::max<std::size_t>(length, 1);
    shown.column.insert(shown.column.end(), taken, column);
    i += taken;
    ++column;
  }
  shown.column.push_back(column);
  return shown;
}

// Part [begin, end) of a line that is shown.
struct Window {
  std::size_t begin = 0;
  std::size_t end = 0;
};

// At most `width` bytes of `line`, with `focus` in it (its start, if it is longer).
Window choose_window(std::string_view line, Window focus, std::size_t width) {
  if (line.size() <= width) return {0, line.size()};
  const std::size_t wanted = std::min(focus.end - focus.begin, width);
  const std::size_t before = std::min(focus.begin, (width - wanted) / 3);
  Window window;
  window.begin = std::min(focus.begin - before, line.size() - width);
  window.end = window.begin + width;
  while (window.begin > 0 && is_continuation(line[window.begin])) --window.begin;
  while (window.end < line.size() && is_continuation(line[window.end])) ++window.end;
  return window;
}

// What stands for the part of the line before the window: nothing, if that is only indentation.
std::string_view cut_mark(std::string_view line, Window window) {
  return line.substr(0, window.begin).find_first_not_of(" \t") == std::string_view::npos ? std::string_view() : kCut;
}

std::string shown_line(std::string_view line, Window window) {
  return std::string(cut_mark(line, window)) + display(line.substr(window.begin, window.end - window.begin)).text +
         std::string(window.end < line.size() ? kCut : "");
}

std::string gutter(std::string_view number, std::string_view bar, const ExcerptStyle& style) {
  const std::size_t pad = style.gutter - std::min(style.gutter, number.size());
  return paint(std::string(pad, ' ') + std::string(number) + " " + std::string(bar), Ink::line_number, style.color);
}

// A label cut to its first line: byte offsets in that line.
struct Mark {
  std::uint32_t line = 0;
  Window bytes;
  const ir::Label* label = nullptr;
};

Mark make_mark(const ir::SourceFile& source, const ir::Label& label) {
  const ir::LineColumn start = source.line_column(label.span.begin);
  Mark mark{start.line, {}, &label};
  const std::size_t line_size = source.line_text(start.line).size();
  mark.bytes.begin = std::min<std::size_t>(start.column - 1, line_size);
  mark.bytes.end = std::min<std::size_t>(mark.bytes.begin + (label.span.end - label.span.begin), line_size);
  return mark;
}

void print_marked_line(std::string_view line, const std::vector<Mark>& marks, Ink primary, const ExcerptStyle& style,
                       std::ostream& out) {
  Window all = marks.front().bytes;
  for (const Mark& mark : marks) all = {std::min(all.begin, mark.bytes.begin), std::max(all.end, mark.bytes.end)};
  if (all.end - all.begin > style.max_width) {
    const auto main = std::find_if(marks.begin(), marks.end(), [](const Mark& mark) { return mark.label->primary; });
    all = main == marks.end() ? marks.front().bytes : main->bytes;
  }
  const Window window = choose_window(line, all, style.max_width);
  out << gutter(std::to_string(marks.front().line), "|", style) << " " << shown_line(line, window) << "\n";
  const Display shown = display(line.substr(window.begin, window.end - window.begin));
  const std::size_t offset = cut_mark(line, window).size();
  for (const Mark& mark : marks) {
    const auto column_of = [&](std::size_t byte) {
      return shown.column[std::clamp(byte, window.begin, window.end) - window.begin];
    };
    const std::size_t first = column_of(mark.bytes.begin);
    const std::size_t length = std::max<std::size_t>(column_of(mark.bytes.end) - first, 1);
    const Ink ink = mark.label->primary ? primary : Ink::line_number;
    const std::string indent(offset + first, ' ');
    const std::string text = printable(mark.label->text);
    // A remark that would end far to the right of the line gets a line of its own.
    const bool below = !text.empty() && indent.size() + length + 1 + text.size() > style.max_width + kCut.size();
    out << gutter("", "|", style) << " " << indent
        << paint(std::string(length, mark.label->primary ? '^' : '-') + (below || text.empty() ? "" : " " + text), ink,
                 style.color)
        << "\n";
    if (below) out << gutter("", "|", style) << " " << indent << paint(text, ink, style.color) << "\n";
  }
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return lines;
}

// Bytes that differ between two lines, in the first of them.
Window difference(std::string_view line, std::string_view other) {
  const std::size_t shorter = std::min(line.size(), other.size());
  std::size_t begin = 0;
  while (begin < shorter && line[begin] == other[begin]) ++begin;
  std::size_t tail = 0;
  while (tail < shorter - begin && line[line.size() - 1 - tail] == other[other.size() - 1 - tail]) ++tail;
  return {begin, line.size() - tail};
}

void print_signed_lines(const std::vector<std::string_view>& lines, const std::vector<std::string_view>& others,
                        std::uint32_t number, char sign, const ExcerptStyle& style, std::ostream& out) {
  const std::size_t shown = std::min(lines.size(), kMaxDiffLines);
  for (std::size_t i = 0; i < shown; ++i) {
    const Window focus = i < others.size() ? difference(lines[i], others[i]) : Window{0, 0};
    const Window window = choose_window(lines[i], focus, style.max_width);
    out << gutter(std::to_string(number + i), "", style)
        << paint(std::string(1, sign) + " " + shown_line(lines[i], window), sign == '+' ? Ink::help : Ink::error,
                 style.color)
        << "\n";
  }
  if (shown < lines.size()) {
    out << gutter("", "", style) << sign << " ... " << lines.size() - shown << " more lines\n";
  }
}

std::vector<ir::Edit> in_file_order(std::vector<ir::Edit> edits) {
  std::stable_sort(edits.begin(), edits.end(),
                   [](const ir::Edit& a, const ir::Edit& b) { return a.span.begin < b.span.begin; });
  return edits;
}

// Applies edits [first, last) to the text [begin, end) of the file.
std::string edited(std::string_view text, std::size_t begin, std::size_t end, const std::vector<ir::Edit>& edits,
                   std::size_t first, std::size_t last) {
  std::string result;
  std::size_t position = begin;
  for (std::size_t i = first; i < last; ++i) {
    const std::size_t from = std::clamp<std::size_t>(edits[i].span.begin, position, end);
    result += text.substr(position, from - position);
    result += edits[i].content;
    position = std::clamp<std::size_t>(edits[i].span.end, from, end);
  }
  result += text.substr(position, end - position);
  return result;
}

}  // namespace

std::string paint(std::string_view text, Ink ink, bool on) {
  if (!on) return std::string(text);
  constexpr std::string_view kCodes[] = {"1;31", "1;33", "1;36", "32", "34", "1"};
  return "\033[" + std::string(kCodes[static_cast<std::size_t>(ink)]) + "m" + std::string(text) + "\033[0m";
}

std::string printable(std::string_view text) {
  return display(text).text;
}

std::size_t decimal_digits(std::size_t number) {
  return std::to_string(number).size();
}

void print_labels(const ir::SourceFile& source, const std::vector<ir::Label>& labels, Ink primary,
                  const ExcerptStyle& style, std::ostream& out) {
  std::vector<Mark> marks;
  for (const ir::Label& label : labels) {
    if (label.span.known()) marks.push_back(make_mark(source, label));
  }
  if (marks.empty()) return;
  std::stable_sort(marks.begin(), marks.end(), [](const Mark& a, const Mark& b) {
    return std::pair(a.line, a.bytes.begin) < std::pair(b.line, b.bytes.begin);
  });
  out << gutter("", "|", style) << "\n";
  for (std::size_t i = 0; i < marks.size();) {
    std::size_t end = i;
    while (end < marks.size() && marks[end].line == marks[i].line) ++end;
    if (i > 0 && marks[i].line > marks[i - 1].line + 1) out << gutter("...", "|", style) << "\n";
    print_marked_line(
        source.line_text(marks[i].line),
        {marks.begin() + static_cast<std::ptrdiff_t>(i), marks.begin() + static_cast<std::ptrdiff_t>(end)}, primary,
        style, out);
    i = end;
  }
}

void print_edits(const ir::SourceFile& source, const std::vector<ir::Edit>& unordered, const ExcerptStyle& style,
                 std::ostream& out) {
  const std::vector<ir::Edit> edits = in_file_order(unordered);
  const std::string_view text = source.text();
  out << gutter("", "|", style) << "\n";
  for (std::size_t i = 0; i < edits.size();) {
    // All edits that touch the same run of lines are shown together.
    const std::uint32_t first_line = source.line_column(edits[i].span.begin).line;
    std::uint32_t last_line = first_line;
    std::size_t end = i;
    while (end < edits.size() && source.line_column(edits[end].span.begin).line <= last_line) {
      last_line = std::max(last_line, source.line_column(edits[end].span.end).line);
      ++end;
    }
    const auto offset = [&](std::string_view part) { return static_cast<std::size_t>(part.data() - text.data()); };
    const std::string_view last = source.line_text(last_line);
    const std::size_t begin = offset(source.line_text(first_line));
    const std::size_t stop = std::min(offset(last) + last.size() + 1, text.size());
    const std::string after = edited(text, begin, stop, edits, i, end);
    std::vector<std::string_view> removed = split_lines(text.substr(begin, stop - begin));
    std::vector<std::string_view> added = split_lines(after);
    std::size_t same = 0;
    while (same < removed.size() && same < added.size() && removed[same] == added[same]) ++same;
    removed.erase(removed.begin(), removed.begin() + static_cast<std::ptrdiff_t>(same));
    added.erase(added.begin(), added.begin() + static_cast<std::ptrdiff_t>(same));
    while (!removed.empty() && !added.empty() && removed.back() == added.back()) {
      removed.pop_back();
      added.pop_back();
    }
    const std::uint32_t number = first_line + static_cast<std::uint32_t>(same);
    print_signed_lines(removed, added, number, '-', style, out);
    print_signed_lines(added, removed, number, '+', style, out);
    i = end;
  }
}

std::string apply_edits(const ir::SourceFile& source, const std::vector<ir::Edit>& edits) {
  return edited(source.text(), 0, source.text().size(), in_file_order(edits), 0, edits.size());
}

}  // namespace shardproof::verifier
