// Walks a script as it is executed, loops unrolled one event at a time; an action is an iteration by itself.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "verifier/structure/communication.h"

namespace shardproof::verifier::structure {

class Cursor {
 public:
  explicit Cursor(const std::vector<Item>& items) { frames_.push_back({&items, nullptr, 0, 0, false}); }

  bool at_end() const { return frames_.empty() || (frames_.size() == 1 && frames_[0].at == frames_[0].items->size()); }
  // The next item: a start, a wait, or a loop or action that is not entered yet. Not at the end.
  const Item& item() const { return (*frames_.back().items)[frames_.back().at]; }
  void enter() {
    const bool action = item().kind == Item::Kind::action;
    frames_.push_back({&item().body, item().instruction->region.get(), 0, action ? item().iteration : 0, action});
  }
  void advance() {
    ++frames_.back().at;
    // The end of a body is the start of the next iteration, or the end of the loop.
    while (frames_.size() > 1 && frames_.back().at == frames_.back().items->size()) {
      Frame& loop = frames_.back();
      if (!loop.action && ++loop.iteration < loop.region->trip) {
        loop.at = 0;
        return;
      }
      frames_.pop_back();
      ++frames_.back().at;
    }
  }
  // The iteration of the action that is open; -1: none is.
  std::int64_t microbatch() const {
    for (const Frame& frame : frames_)
      if (frame.action) return frame.iteration;
    return -1;
  }
  // Value of the index of an open loop; nullptr if there is none.
  const std::int64_t* index(const std::string& name) const {
    for (const Frame& frame : frames_)
      if (frame.region != nullptr && frame.region->index == name) return &frame.iteration;
    return nullptr;
  }
  std::string iteration_text() const {  // " in iteration m=3"; empty outside loops
    std::string text;
    for (const Frame& frame : frames_)
      if (frame.region != nullptr) text += (text.empty() ? " in iteration " : ", ") + frame.region->index + "=" + std::to_string(frame.iteration);
    return text;
  }

 private:
  struct Frame {
    const std::vector<Item>* items;
    const ir::Region* region;  // nullptr: the program
    std::size_t at;
    std::int64_t iteration;
    bool action;  // of one iteration only
  };
  std::vector<Frame> frames_;
};

}  // namespace shardproof::verifier::structure
