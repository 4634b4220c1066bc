// The two things that are compared: a Reference (one training step on one device) and a Plan (the same
// step on a mesh). A Document is one plan file: it embeds both.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/mesh.h"
#include "ir/placement.h"
#include "ir/program.h"
#include "ir/source.h"

namespace shardproof::ir {

// ---------------------------------------------------------------- reference

// A per-step input: batch tensors and scalars (learning rate). `below`: for integer tensors, all elements
// are in [0, below); it is an assumption on the input and is listed with every verdict.
struct ReferenceInput {
  ValueId value;
  std::int64_t below = 0;  // 0: not declared
  Span span;
};

// A tensor that lives across steps. The value on entry is `value`, the value on exit `next`; equal types.
// role: "param", "exp_avg", "exp_avg_sq", "step", ...; `param`: the parameter an optimizer state belongs to.
struct ReferenceState {
  std::string name;  // == name of `value`
  ValueId value;
  ValueId next;      // may equal `value` (unchanged)
  std::string role;
  std::string param;
  Span span;
};

// A metric: loss, gradient norm.
struct ReferenceOutput {
  std::string name;
  ValueId value;
  Span span;
};

struct Reference {
  Program program;
  std::vector<ReferenceInput> inputs;
  std::vector<ReferenceState> state;
  std::vector<ReferenceOutput> outputs;
};

// ---------------------------------------------------------------- plan

// A local value that represents (all or part of) reference tensors. Exactly one of `of`, `fused` and `buffer`
// is set:
//   of:     the value is reference tensor `of` under `placement`;
//   fused:  the value is the concatenation of `fused` parts (see FusedPart); `placement` has no dims and only
//           gives partial/owned axes. With a role, the parts name parameters;
//   buffer: the value is flat buffer `buffer` cut by `placement` (one dimension), where the member for
//           parameter p holds the reference state with `role` and param p (role "param": p itself).
struct Binding {
  std::string of;
  std::vector<FusedPart> fused;
  std::int64_t fuse_axis = 0;
  std::string buffer;
  std::string role;
  Placement placement;
};

struct PlanInput {
  ValueId value;
  Binding binding;
  Span span;
};

// State of the ranks. Given on entry as `value`, claimed on exit as `next`, under the same binding, so that
// the claim carries over any number of steps. Several plan states may represent one reference tensor
// (compute weights and fp32 main weights).
struct PlanState {
  std::string name;
  ValueId value;
  ValueId next;
  Binding binding;
  std::string device = "accelerator";  // or "host"
  Span span;
};

struct PlanOutput {
  std::string name;  // of the reference output
  ValueId value;
  Binding binding;
  Span span;
};

// One SPMD program. `where` restricts it to coordinates of an axis (pipeline stage); empty: all ranks. Each rank runs one. With
// pipeline parallelism it holds all the model's stages of its pipeline rank: straight code, one loop over microbatches whose
// instructions carry the `action` that they belong to, and straight code again.
struct StageProgram {
  std::string name;
  std::vector<OwnedAxis> where;
  Program program;
  std::vector<PlanInput> inputs;
  std::vector<PlanState> state;
  std::vector<PlanOutput> outputs;
  Span span;
};

// In which order each pipeline rank (StageProgram, by position) runs the actions that instructions of its loop over microbatches
// carry. Exactly one form: a generator (schedule_generator.h) or explicit rows (schedule_action.h), one for each stage program.
struct Schedule {
  std::string generator;
  std::int64_t microbatches = 1;
  std::int64_t virtual_stages = 1;
  std::int64_t max_in_flight = 0;  // microbatches of stages that a rank may hold for their backward; 0: any number
  std::vector<std::vector<std::string>> actions;
  Span span;
  Span generator_span;
  std::vector<std::vector<Span>> action_spans;  // of `actions`, where these come from a file

  Span span_of(std::size_t row, std::size_t cell) const;  // of `actions[row][cell]`, or else of the schedule
};

// A named random stream: key as a function of coordinates, microbatch and layer.
struct RngStream {
  std::string name;
  std::vector<CoordExpr> key;
  Span span;
};

// One checkpoint entry: state `state` is saved under `key`, each element by exactly one writer.
struct CheckpointEntry {
  std::string key;
  std::string state;
  std::string file;
  Span span;
};

struct Plan {
  std::string name;
  std::vector<Mesh> meshes;
  std::vector<FlatBuffer> buffers;
  std::vector<RngStream> rng;
  std::vector<StageProgram> stages;  // one for an SPMD plan
  std::optional<Schedule> schedule;
  std::vector<CheckpointEntry> checkpoint;
  std::vector<std::string> notes;    // provenance; never evidence

  const Mesh* find_mesh(const std::string& mesh_name) const;  // empty name: the first mesh
  const FlatBuffer* find_buffer(const std::string& buffer_name) const;
};

struct Document {
  std::shared_ptr<const SourceFile> source;  // null for documents built in memory
  Reference reference;
  Plan plan;
};

}  // namespace shardproof::ir
