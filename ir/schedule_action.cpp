#include "ir/schedule_action.h"

#include <algorithm>
#include <array>
#include <utility>

namespace shardproof::ir {

namespace {

constexpr std::array<std::pair<std::string_view, ActionType>, 12> kTypes = {{{"F", ActionType::forward},
                                                                             {"B", ActionType::backward},
                                                                             {"I", ActionType::backward_input},
                                                                             {"W", ActionType::backward_weight},
                                                                             {"SEND_F", ActionType::send_forward},
                                                                             {"RECV_F", ActionType::recv_forward},
                                                                             {"SEND_B", ActionType::send_backward},
                                                                             {"RECV_B", ActionType::recv_backward},
                                                                             {"UNSHARD", ActionType::unshard},
                                                                             {"RESHARD", ActionType::reshard},
                                                                             {"REDUCE_GRAD", ActionType::reduce_grad},
                                                                             {"OPT", ActionType::optimizer}}};
constexpr std::string_view kOverlap = "OVERLAP_F_B";
constexpr std::size_t kMaxCell = 4096;  // bytes

bool digit(char c) { return c >= '0' && c <= '9'; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// Text of a file made fit for a message: short, and without control bytes.
std::string shown(std::string_view text) {
  std::string result = "`";
  for (const char c : text.substr(0, 40)) result += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return result + (text.size() > 40 ? "...`" : "`");
}

// Takes the digits at the front. nullopt: there are none, or the number is too large.
std::optional<std::int64_t> take_number(std::string_view& text) {
  std::size_t length = 0;
  std::int64_t value = 0;
  for (; length < text.size() && digit(text[length]); ++length) {
    value = value * 10 + (text[length] - '0');
    if (value > kMaxActionNumber) return std::nullopt;
  }
  if (length == 0) return std::nullopt;
  text.remove_prefix(length);
  return value;
}

std::optional<ScheduleAction> parse_action(std::string_view text, std::string& problem) {
  const std::string_view all = text;
  const auto fail = [&](const std::string& why) -> std::optional<ScheduleAction> {
    problem = shown(all) + " is no action: " + why;
    return std::nullopt;
  };
  ScheduleAction action;
  const bool stage_given = !text.empty() && digit(text.front());
  const auto stage = take_number(text);
  if (!stage) return fail(stage_given ? "its stage is above " + std::to_string(kMaxActionNumber) : "it does not begin with the number of a stage");
  action.stage = *stage;
  const std::size_t length = std::min(text.size(), static_cast<std::size_t>(std::find_if(text.begin(), text.end(), digit) - text.begin()));
  const auto type = std::find_if(kTypes.begin(), kTypes.end(), [&](const auto& entry) { return entry.first == text.substr(0, length); });
  if (type == kTypes.end()) return fail("the stage is not followed by F, B, I, W, SEND_F, RECV_F, SEND_B, RECV_B, UNSHARD, RESHARD, REDUCE_GRAD or OPT");
  action.type = type->second;
  text.remove_prefix(length);
  if (text.empty()) return action;
  const auto microbatch = take_number(text);
  if (!microbatch) return fail("its microbatch is above " + std::to_string(kMaxActionNumber));
  if (!text.empty()) return fail("something follows its microbatch");
  if (action.type == ActionType::optimizer) return fail("an optimizer step has no microbatch");
  action.microbatch = microbatch;
  return action;
}

// An action of a cell: those done for each microbatch say for which.
bool add_action(std::string_view text, ScheduleCell& cell, std::string& problem) {
  const auto action = parse_action(trimmed(text), problem);
  if (!action) return false;
  if (per_microbatch(action->type) && !action->microbatch) {
    problem = shown(trimmed(text)) + " lacks the number of its microbatch";
    return false;
  }
  cell.push_back(*action);
  return true;
}

std::string number_of(const std::optional<std::int64_t>& microbatch) { return microbatch ? std::to_string(*microbatch) : std::string(); }

// The cells of one line; quoted ones without their quotes.
std::optional<std::vector<std::string>> split_line(std::string_view line, std::string& problem) {
  std::vector<std::string> cells;
  for (std::size_t at = 0;;) {
    std::string cell;
    if (at < line.size() && line[at] == '"') {
      for (++at; at < line.size() && line[at] != '"'; ++at) cell += line[at];
      if (at == line.size()) {
        problem = "a quoted cell does not end on its line";
        return std::nullopt;
      }
      ++at;
      if (at < line.size() && line[at] != ',') {
        problem = "something follows the quotes of a cell";
        return std::nullopt;
      }
    } else {
      for (; at < line.size() && line[at] != ','; ++at) cell += line[at];
    }
    cells.push_back(std::move(cell));
    if (at == line.size()) return cells;
    ++at;
  }
}

}  // namespace

std::string_view action_type_name(ActionType type) {
  for (const auto& [name, each] : kTypes)
    if (each == type) return name;
  return "";
}

bool per_microbatch(ActionType type) {
  return type != ActionType::unshard && type != ActionType::reshard && type != ActionType::reduce_grad && type != ActionType::optimizer;
}

std::string to_string(const ActionLabel& label) { return std::to_string(label.stage) + std::string(action_type_name(label.type)); }

std::string to_string(const ScheduleAction& action) { return to_string(action.label()) + number_of(action.microbatch); }

std::string to_string(const ScheduleCell& cell) {
  if (cell.size() == 1) return to_string(cell.front());
  std::string text;
  for (const ScheduleAction& action : cell) text += (text.empty() ? "(" : ";") + to_string(action);
  return text.empty() ? text : text + ")" + std::string(kOverlap);
}

std::optional<ScheduleCell> parse_cell(std::string_view text, std::string& problem) {
  text = trimmed(text);
  ScheduleCell cell;
  if (text.empty()) return cell;
  if (text.size() > kMaxCell) {
    problem = "a cell has more than " + std::to_string(kMaxCell) + " bytes";
    return std::nullopt;
  }
  if (text.front() != '(') return add_action(text, cell, problem) ? std::optional(cell) : std::nullopt;
  const std::size_t end = text.find(')');
  if (end == std::string_view::npos || trimmed(text.substr(end + 1)) != kOverlap) {
    problem = shown(text) + " is no action: actions that overlap are written (0F3;4B1)OVERLAP_F_B";
    return std::nullopt;
  }
  std::string_view inner = text.substr(1, end - 1);
  for (;;) {
    const std::size_t next = inner.find(';');
    if (!add_action(inner.substr(0, next), cell, problem)) return std::nullopt;
    if (next == std::string_view::npos) return cell;
    inner.remove_prefix(next + 1);
  }
}

std::optional<ActionLabel> parse_label(std::string_view text, std::string& problem) {
  const auto action = parse_action(text, problem);
  if (!action) return std::nullopt;
  if (!per_microbatch(action->type)) {
    problem = shown(text) + " is not done for each microbatch, so no instruction of the loop carries it";
    return std::nullopt;
  }
  if (action->microbatch) {
    problem = shown(text) + " names a microbatch: instructions carry the stage and the type alone, for all microbatches";
    return std::nullopt;
  }
  return action->label();
}

std::optional<ScheduleTable> read_schedule_csv(std::string_view text, CsvProblem& problem) {
  ScheduleTable table;
  std::int64_t cells = 0;
  const auto fail = [&](std::size_t column, std::string message) -> std::optional<ScheduleTable> {
    problem = {table.size() + 1, column, std::move(message)};
    return std::nullopt;
  };
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    std::vector<ScheduleCell> row;
    std::string why;
    if (!line.empty()) {
      const auto parts = split_line(line, why);
      if (!parts) return fail(0, std::move(why));
      for (const std::string& part : *parts) {
        auto cell = parse_cell(part, why);
        if (!cell) return fail(row.size() + 1, std::move(why));
        cells += std::max<std::int64_t>(1, static_cast<std::int64_t>(cell->size()));
        if (cells > kMaxScheduleActions) return fail(row.size() + 1, "the table has more than " + std::to_string(kMaxScheduleActions) + " cells");
        row.push_back(*std::move(cell));
      }
    }
    table.push_back(std::move(row));
  }
  return table;
}

std::string write_schedule_csv(const ScheduleTable& table) {
  std::string text;
  for (const std::vector<ScheduleCell>& row : table) {
    for (std::size_t i = 0; i < row.size(); ++i) text += (i == 0 ? "" : ",") + to_string(row[i]);
    if (row.size() == 1 && row.front().empty()) text += "\"\"";  // not a row without cells
    text += "\n";
  }
  return text;
}

}  // namespace shardproof::ir
