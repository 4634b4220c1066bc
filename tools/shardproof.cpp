// The command-line front: picks the verb and turns exceptions into messages and exit codes.
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <vector>

#include "ir/check.h"
#include "tools/commands.h"

namespace shardproof::tools {

namespace {

struct Verb {
  const char* name;
  const char* summary;
  int (*run)(Arguments);
};

constexpr Verb kVerbs[] = {
    {"plan", "lower a model and its degrees of parallelism to a plan", cmd_plan},
    {"verify", "prove that a plan computes the same step as its reference", cmd_verify},
    {"parity", "run a plan and its reference on random inputs, tensor by tensor", cmd_parity},
    {"reshard-check", "check that training saved by one plan goes on under another", cmd_reshard_check},
    {"show", "print a plan for people", cmd_show},
    {"schedule", "print which action each pipeline rank runs when", cmd_schedule},
    {"explain", "print the page of a diagnostic code", cmd_explain},
    {"fmt", "print a plan file in canonical form", cmd_fmt},
    {"edit", "remove one instruction of a plan, to see what it was good for", cmd_edit},
};

void print_help(std::ostream& out) {
  out << "shardproof " SHARDPROOF_VERSION
         ": formal verifier for distributed training plans\n\n"
         "usage: shardproof VERB [OPTIONS]\n\nverbs:\n";
  for (const Verb& verb : kVerbs) {
    const std::string name = verb.name;
    out << "  " << name << std::string(15 - name.size(), ' ') << verb.summary << "\n";
  }
  out << "\n`shardproof VERB --help` lists the options of a verb.\n"
         "exit codes: 0 equivalent or done, 1 not equivalent, 2 bad input or usage, 3 not decided, 70 internal error\n";
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    print_help(std::cerr);
    return kExitUsage;
  }
  const std::string& verb_name = arguments.front();
  if (verb_name == "--help" || verb_name == "-h" || verb_name == "help") {
    print_help(std::cout);
    return 0;
  }
  if (verb_name == "--version") {
    std::cout << "shardproof " SHARDPROOF_VERSION "\n";
    return 0;
  }
  std::vector<std::string> names;
  for (const Verb& verb : kVerbs) {
    if (verb_name == verb.name) return verb.run(Arguments(arguments).subspan(1));
    names.push_back(verb.name);
  }
  throw UsageError("unknown verb '" + verb_name + "'" + nearest_hint(verb_name, names) + "; see `shardproof --help`");
}

int internal_error(const char* what) {
  std::cerr << "internal error: " << what
            << "\nthis is a bug in shardproof, not in the plan; please report it with the command and the input file\n";
  return kExitInternal;
}

}  // namespace

}  // namespace shardproof::tools

int main(int argc, char** argv) {
  using namespace shardproof::tools;
  std::ios::sync_with_stdio(false);
  try {
    return run(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const UsageError& error) {
    std::cerr << "error: " << error.what() << "\n";
    return kExitUsage;
  } catch (const std::bad_alloc&) {
    return internal_error("out of memory");
  } catch (const std::exception& error) {
    return internal_error(error.what());
  }
}
