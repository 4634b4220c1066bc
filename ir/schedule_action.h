// The actions of a pipeline schedule, in the notation of torch.distributed.pipelining: "<stage><type><microbatch>".
//   F forward, B full backward, I input gradient, W weight gradient; SEND_F, RECV_F, SEND_B, RECV_B messages by themselves;
//   UNSHARD, RESHARD, REDUCE_GRAD of a stage's parameters, with or without a microbatch;
//   OPT (not PyTorch's): the optimizer step of a stage, without a microbatch.
// Actions that run as one, "(0F3;4B1)OVERLAP_F_B", share a cell. A table has a row for each pipeline rank; an empty cell is
// a slot without work. The same table as CSV is what PyTorch reads and writes.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardproof::ir {

enum class ActionType { forward, backward, backward_input, backward_weight, send_forward, recv_forward, send_backward, recv_backward, unshard, reshard, reduce_grad, optimizer };

std::string_view action_type_name(ActionType type);  // "F", "SEND_F", "OPT"
// Whether it is done once for each microbatch, so that instructions can carry it as a label.
bool per_microbatch(ActionType type);

// What instructions carry as `action`: "0F".
struct ActionLabel {
  std::int64_t stage = 0;
  ActionType type = ActionType::forward;
  friend auto operator<=>(const ActionLabel&, const ActionLabel&) = default;
};

struct ScheduleAction {
  std::int64_t stage = 0;
  ActionType type = ActionType::forward;
  std::optional<std::int64_t> microbatch;
  ActionLabel label() const { return {stage, type}; }
  friend bool operator==(const ScheduleAction&, const ScheduleAction&) = default;
};

using ScheduleCell = std::vector<ScheduleAction>;          // none: idle; several: they overlap
using ScheduleTable = std::vector<std::vector<ScheduleCell>>;  // a row for each pipeline rank

inline constexpr std::int64_t kMaxActionNumber = 1'000'000'000;       // stages and microbatches
inline constexpr std::int64_t kMaxScheduleActions = std::int64_t{1} << 20;  // of all rows together

std::string to_string(const ActionLabel& label);
std::string to_string(const ScheduleAction& action);
std::string to_string(const ScheduleCell& cell);

// One cell; nullopt: `problem` says what is wrong with it.
std::optional<ScheduleCell> parse_cell(std::string_view text, std::string& problem);
std::optional<ActionLabel> parse_label(std::string_view text, std::string& problem);

struct CsvProblem {
  std::size_t row = 0, column = 0;  // from 1; column 0: the row as a whole
  std::string message;
};
// Rows end with a line feed, with or without a carriage return; cells may be quoted. A row without cells is a rank without work.
std::optional<ScheduleTable> read_schedule_csv(std::string_view text, CsvProblem& problem);
std::string write_schedule_csv(const ScheduleTable& table);

}  // namespace shardproof::ir
