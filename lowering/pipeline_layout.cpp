#include "lowering/pipeline_layout.h"

#include <algorithm>

#include "ir/schedule_generator.h"
#include "lowering/plan_error.h"

namespace shardproof::lowering {

namespace {

using std::to_string;

constexpr std::int64_t most_chunks = 4096;

// What lies between two bars of a layout string.
struct Part {
  bool embedding = false, loss = false;
  std::int64_t layers = 0;
};

[[noreturn]] void malformed(const std::string& layout, std::size_t at, const std::string& expected) {
  throw PlanError("SP0033", "the pipeline layout cannot be read at character " + to_string(at + 1), expected, "`" + layout + "`",
                  "write E, t and L with bars between stages, as in `Et*3|(tt|)*29,t|L`", "pipeline_model_parallel_layout");
}

// item := (letter | "(" item* ")") ["*" number]; commas are for the eye.
std::string expanded(const std::string& layout, std::size_t& at, int depth) {
  constexpr std::size_t most_characters = 1 << 20;
  std::string text;
  while (at < layout.size() && layout[at] != ')') {
    const char c = layout[at];
    std::string item;
    if (c == ',' || c == ' ') {
      ++at;
      continue;
    }
    if (c == '(') {
      if (depth > 16) malformed(layout, at, "at most 16 parentheses in each other");
      item = expanded(layout, ++at, depth + 1);
      if (at >= layout.size()) malformed(layout, at - 1, "`)`");
    } else if (std::string("Et|L").find(c) == std::string::npos) {
      malformed(layout, at, c == 'm' ? "no `m`: multi-token prediction is not lowered yet" : "E, t, L, |, ( or )");
    } else {
      item = c;
    }
    ++at;
    std::size_t times = 1;
    if (at < layout.size() && layout[at] == '*') {
      const std::size_t start = ++at;
      times = 0;
      while (at < layout.size() && layout[at] >= '0' && layout[at] <= '9' && times < most_characters) times = times * 10 + static_cast<std::size_t>(layout[at++] - '0');
      if (at == start || times == 0) malformed(layout, start - 1, "a number of 1 or more after `*`");
    }
    if (text.size() + times * item.size() > most_characters) malformed(layout, at - 1, "a layout of at most 2^20 layers");
    for (std::size_t i = 0; i < times; ++i) text += item;
  }
  return text;
}

std::vector<Part> explicit_parts(const std::string& layout) {
  std::size_t at = 0;
  const std::string text = expanded(layout, at, 0);
  if (at < layout.size()) malformed(layout, at, "`(` before `)`");
  std::vector<Part> parts(1);
  for (const char c : text) {
    if (c == '|') parts.emplace_back();
    else if (c == 'E') parts.back().embedding = true;
    else if (c == 'L') parts.back().loss = true;
    else ++parts.back().layers;
  }
  return parts;
}

std::vector<Part> even_parts(std::int64_t layers, std::int64_t count) {
  std::vector<Part> parts(static_cast<std::size_t>(count));
  const bool even = layers % count == 0;
  const std::int64_t units = even ? layers : layers + 2;
  for (std::int64_t i = 0; i < count; ++i) parts[static_cast<std::size_t>(i)].layers = units / count + (i < units % count ? 1 : 0);
  if (!even) {
    --parts.front().layers;
    --parts.back().layers;
  }
  parts.front().embedding = true;
  parts.back().loss = true;
  return parts;
}

void check_parts(const std::vector<Part>& parts, std::int64_t layers, std::int64_t count, const std::string& layout) {
  std::int64_t total = 0;
  bool elsewhere = false;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    total += parts[i].layers;
    elsewhere = elsewhere || parts[i].layers < 0 || parts[i].embedding != (i == 0) || parts[i].loss != (i + 1 == parts.size());
  }
  const auto refuse = [&](const std::string& what, const std::string& expected, const std::string& found) {
    throw PlanError("SP0031", what, expected, found, layout.empty() ? "choose other degrees, or give a `pipeline_model_parallel_layout`" : "correct the layout",
                    layout.empty() ? "pipeline_model_parallel_size" : "pipeline_model_parallel_layout");
  };
  if (static_cast<std::int64_t>(parts.size()) != count) refuse("the pipeline layout has another number of stages than the pipeline", to_string(count), to_string(parts.size()));
  if (elsewhere) refuse("a pipeline begins with the embedding and ends with the loss", "E in the first stage and L in the last", layout.empty() ? "too few layers" : "`" + layout + "`");
  if (total != layers) refuse("the pipeline layout has another number of layers than the model", to_string(layers), to_string(total));
}

}  // namespace

std::vector<ModelChunk> PipelineLayout::of_rank(std::int64_t rank) const {
  std::vector<ModelChunk> own;
  for (const ModelChunk& chunk : chunks)
    if (chunk.rank == rank) own.push_back(chunk);
  std::sort(own.begin(), own.end(), [&](const ModelChunk& a, const ModelChunk& b) { return a.stage % stages() < b.stage % stages(); });
  return own;
}

const ModelChunk* PipelineLayout::before(const ModelChunk& chunk) const { return chunk.embedding ? nullptr : &chunks[static_cast<std::size_t>(chunk.stage - 1)]; }
const ModelChunk* PipelineLayout::after(const ModelChunk& chunk) const { return chunk.loss ? nullptr : &chunks[static_cast<std::size_t>(chunk.stage + 1)]; }

namespace {

// Throws PlanError if there is no such schedule, or not for these sizes.
const ir::ScheduleGenerator& generator_of(const PipelineLayout& layout, const ParallelConfig& parallel) {
  const ir::ScheduleGenerator* generator = ir::find_schedule_generator(layout.schedule, layout.virtual_stages);
  if (generator == nullptr) {
    std::string names;
    for (const std::string_view name : ir::schedule_generator_names()) names += (names.empty() ? "" : ", ") + std::string(name);
    throw PlanError("SP0033", "there is no pipeline schedule `" + layout.schedule + "`", names, "`" + layout.schedule + "`", "choose one of these", "schedule");
  }
  if (const auto problem = ir::size_problem(*generator, {layout.ranks, layout.virtual_stages, parallel.num_microbatches()}))
    throw PlanError("SP0033", problem->message, problem->expected, problem->found, problem->fix, "schedule");
  return *generator;
}

}  // namespace

PipelineLayout pipeline_layout(const ModelConfig& model, const ParallelConfig& parallel) {
  PipelineLayout layout;
  layout.ranks = parallel.pipeline_model_parallel_size;
  std::int64_t of_rank = 1;  // chunks
  const ir::ScheduleGenerator* generator = nullptr;
  ir::ScheduleSize size;
  if (layout.ranks > 1) {
    layout.virtual_stages = parallel.virtual_pipeline_model_parallel_size;
    layout.schedule = !parallel.schedule.empty() ? parallel.schedule : layout.virtual_stages > 1 ? "interleaved-1f1b" : "1f1b";
    generator = &generator_of(layout, parallel);
    size = {layout.ranks, layout.virtual_stages, parallel.num_microbatches()};
    of_rank = ir::chunks_per_rank(*generator, size);
    layout.directions = generator->shape == ir::ScheduleGenerator::Shape::bidirectional ? 2 : 1;
    layout.virtual_stages = of_rank / layout.directions;
    layout.splits_backward = generator->splits_backward;
  }
  const std::int64_t count = layout.ranks * layout.virtual_stages;
  if (count > most_chunks) {
    throw PlanError("SP0032", "the pipeline has too many stages", "at most " + to_string(most_chunks), to_string(count), "choose smaller degrees", "pipeline_model_parallel_size");
  }
  const std::string& text = parallel.pipeline_model_parallel_layout;
  const std::vector<Part> parts = text.empty() ? even_parts(model.num_layers, count) : explicit_parts(text);
  check_parts(parts, model.num_layers, count, text);
  for (std::int64_t direction = 0; direction < layout.directions; ++direction) {
    std::int64_t layer = 0;
    for (const Part& part : parts) {
      ModelChunk chunk{static_cast<std::int64_t>(layout.chunks.size()), 0, {}, part.embedding, part.loss};
      for (std::int64_t i = 0; i < part.layers; ++i) chunk.layers.push_back(layer++);
      layout.chunks.push_back(std::move(chunk));
    }
  }
  for (std::int64_t rank = 0; generator != nullptr && rank < layout.ranks; ++rank)
    for (std::int64_t chunk = 0; chunk < of_rank; ++chunk) layout.chunks[static_cast<std::size_t>(ir::stage_of(*generator, size, rank, chunk))].rank = rank;
  return layout;
}

}  // namespace shardproof::lowering
