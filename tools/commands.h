// The verbs of `shardproof`. Each parses its own arguments and returns the exit code.
#pragma once

#include "tools/command_line.h"

namespace shardproof::tools {

int cmd_plan(Arguments arguments);     // lower a model and degrees to a plan
int cmd_verify(Arguments arguments);   // prove a plan equivalent to its reference
int cmd_parity(Arguments arguments);   // run plan and reference and compare
int cmd_reshard_check(Arguments arguments);  // whether one plan loads what another saved
int cmd_show(Arguments arguments);     // print a plan for people
int cmd_schedule(Arguments arguments);  // print the table of a pipeline schedule
int cmd_fmt(Arguments arguments);      // print a plan in canonical form
int cmd_edit(Arguments arguments);     // remove one instruction of a plan
int cmd_explain(Arguments arguments);  // print the page of a code

}  // namespace shardproof::tools
