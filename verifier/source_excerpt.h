// Lines of a source file as shown under a finding: with carets below marked places, or as the diff of an edit.
// What comes from the file is made safe for a terminal: control and bidirectional-override characters and bytes
// that are not UTF-8 show as '?', and only a window of an overlong line is looked at.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "ir/diagnostic.h"
#include "ir/source.h"

namespace shardproof::verifier {

struct ExcerptStyle {
  bool color = false;
  std::size_t max_width = 120;
  std::size_t gutter = 1;  // digits of the largest line number shown
};

enum class Ink { error, warning, note, help, line_number, bold };

// `text` in a colour when `on`.
std::string paint(std::string_view text, Ink ink, bool on);
std::string printable(std::string_view text);
std::size_t decimal_digits(std::size_t number);

// The marked lines in file order with their labels; `primary` colours the carets of the primary label.
void print_labels(const ir::SourceFile& source, const std::vector<ir::Label>& labels, Ink primary,
                  const ExcerptStyle& style, std::ostream& out);

// The lines that `edits` (which do not overlap) remove and add.
void print_edits(const ir::SourceFile& source, const std::vector<ir::Edit>& edits, const ExcerptStyle& style,
                 std::ostream& out);

// The text of `source` after `edits`.
std::string apply_edits(const ir::SourceFile& source, const std::vector<ir::Edit>& edits);

}  // namespace shardproof::verifier
