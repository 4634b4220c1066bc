#include "verifier/certificate/check.h"

#include <algorithm>

#include "ir/check.h"
#include "ir/validate.h"
#include "verifier/certificate/digest.h"
#include "verifier/certificate/format.h"
#include "verifier/certificate/replay.h"
#include "verifier/kernel/proof.h"
#include "verifier/structure/structure.h"

namespace shardproof::verifier {

namespace {

constexpr std::int64_t kHeaderLines = 4;

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) throw Rejection(Rejection::Why::malformed, static_cast<std::int64_t>(lines.size()) + 1, {}, "the certificate ends within a line");
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return lines;
}

ir::Diagnostic rejected(const char* code, const char* name, const std::string& message, std::string expected, std::string found, std::string help) {
  return ir::make_error(code, name, message, {}, std::move(expected), std::move(found), std::move(help));
}

ir::Diagnostic malformed(std::int64_t line, const std::string& message) {
  const std::string place = line > 0 ? "line " + std::to_string(line) + " of the certificate: " : std::string();
  return rejected("SP0801", "malformed-certificate", place + message, "a certificate as `shardproof verify --certificate` writes it", "a file that was cut off or changed",
                  "make it again with `shardproof verify --certificate`");
}

// The body, if the frame around it is whole and names this document. Else findings.
std::vector<std::string_view> body_of(const ir::Document& document, std::string_view text, std::vector<ir::Diagnostic>& findings) {
  std::vector<std::string_view> lines = split_lines(text);
  const auto expect = [&](std::int64_t at, const std::string& wanted, const char* what) {
    if (static_cast<std::size_t>(at) < lines.size() && lines[static_cast<std::size_t>(at)] == wanted) return true;
    findings.push_back(malformed(at + 1, what));
    return false;
  };
  if (lines.empty() || lines[0].substr(0, kCertificateTitle.size()) != kCertificateTitle) {
    findings.push_back(malformed(1, "this is no certificate"));
    return {};
  }
  if (!expect(0, std::string(kCertificateTitle) + " " + std::to_string(kCertificateVersion), "another version of the format")) return {};
  const std::size_t last = lines.size() - 1;
  const std::size_t before = static_cast<std::size_t>(lines[last].data() - text.data());
  if (!expect(static_cast<std::int64_t>(last), "end " + std::to_string(last) + " sha256 " + sha256(text.substr(0, before)),
              "the last line does not seal those before it: the certificate was cut off or changed"))
    return {};
  if (lines.size() < kHeaderLines + 1) {
    findings.push_back(malformed(static_cast<std::int64_t>(last) + 1, "the header ends early"));
    return {};
  }
  const std::string kernel = " kernel " + std::to_string(kKernelVersion);
  if (lines[1].substr(0, 8) != "made-by " || lines[1].size() < kernel.size() || lines[1].substr(lines[1].size() - kernel.size()) != kernel) {
    findings.push_back(rejected("SP0801", "malformed-certificate", "the certificate was made for another version of the kernel", "`made-by VERSION" + kernel + "`",
                                "`" + std::string(lines[1].substr(0, 80)) + "`", "make it again with `shardproof verify --certificate`"));
    return {};
  }
  const DocumentDigests digests = digests_of(document);
  const auto foreign = [&](std::size_t at, const std::string& wanted, const char* of) {
    if (lines[at] == wanted) return false;
    findings.push_back(rejected("SP0802", "foreign-certificate", std::string("the certificate is that of another ") + of, wanted, std::string(lines[at].substr(0, 100)),
                                "verify this file with `shardproof verify --certificate`"));
    return true;
  };
  if (foreign(3, "reference sha256 " + digests.reference, "reference") || foreign(2, "plan sha256 " + digests.plan, "plan")) return {};
  return {lines.begin() + kHeaderLines, lines.end() - 1};
}

// The instruction that makes the value, for the finding.
const ir::Instruction* maker_of(const std::vector<ir::Instruction>& body, const ir::Program& program, const std::string& value) {
  for (const ir::Instruction& i : body) {
    for (const ir::ValueId out : i.outputs)
      if (program.value(out).name == value) return &i;
    if (i.region)
      if (const ir::Instruction* inner = maker_of(i.region->body, program, value)) return inner;
  }
  return nullptr;
}

ir::Diagnostic unproved(const Proof& proof, const Rejection& rejection) {
  ir::Diagnostic d = rejected("SP0803", "unproved-certificate",
                              "line " + std::to_string(rejection.line) + " of the certificate does not hold for `" + rejection.value + "`: " + rejection.what(), {}, {}, {});
  d.subject.value = rejection.value;
  for (const ir::Program* program : {&proof.plan_program(), &proof.reference_program()})
    if (const ir::Instruction* maker = maker_of(program->body, *program, rejection.value)) {
      d.subject.instruction = std::string(ir::schema_of(maker->op).name) + " -> " + rejection.value;
      for (ir::Label& label : d.labels) label.span = maker->span;
      break;
    }
  return d;
}

ir::Diagnostic not_shown(const std::string& message, ir::Span span) {
  return ir::make_error("SP0803", "unproved-certificate", message, span, "a proof", "a gap", "verify this file with `shardproof verify`");
}

void judge(Proof& proof, CertificateReport& report) {
  for (const ProgramRun* run : {&proof.reference_run(), &proof.plan_run()})
    for (const Fault& fault : run->faults())
      report.diagnostics.push_back(not_shown("the certificate gives no meaning to `" + run->program().value(fault.value).name + "`: " + fault.message, fault.instruction->span));
  for (const Claim& claim : proof.claims())
    if (!claim.proved)
      report.diagnostics.push_back(not_shown("the certificate does not show that `" + claim.name + "` is `" + claim.reference + "` of the reference", claim.span));
  if (proof.claims().empty()) report.diagnostics.push_back(not_shown("the reference has no state and no outputs, so there is nothing to certify", {}));
  const Proof::SideConditionResult conditions = proof.judge_side_conditions();
  for (const auto& [list, what] : {std::pair(&conditions.contradictions, "no input satisfies what the reference needs: "), {&conditions.unshown, "no inputs are known for which the reference is defined: it needs that "},
                                   {&conditions.unmet, "the plan equals its reference only if "}})
    for (const Proof::SideConditionResult::Failure& failure : *list) report.diagnostics.push_back(not_shown(what + failure.text, failure.span));
  report.assumptions = conditions.assumptions;
  report.claims = static_cast<std::int64_t>(proof.claims().size());
}

}  // namespace

std::string certificate_text(const ir::Document& document, const std::string& made_by, const std::string& body, std::int64_t lines) {
  const DocumentDigests digests = digests_of(document);
  std::string text = std::string(kCertificateTitle) + " " + std::to_string(kCertificateVersion) + "\nmade-by " + made_by + " kernel " + std::to_string(kKernelVersion) +
                     "\nplan sha256 " + digests.plan + "\nreference sha256 " + digests.reference + "\n" + body;
  const std::string seal = sha256(text);
  return std::move(text) + "end " + std::to_string(kHeaderLines + lines) + " sha256 " + seal + "\n";
}

CertificateReport check_certificate(const ir::Document& document, std::string_view certificate, const ProofLimits& limits) {
  CertificateReport report;
  ir::DiagnosticSink sink;
  ir::validate(document, sink);
  std::optional<ir::Document> joined;
  const ir::Document& whole = sink.ok() ? provable(document, joined, sink) : document;
  if (!sink.ok()) {
    report.verdict = CertificateReport::Verdict::invalid;
    report.diagnostics = sink.take();
    return report;
  }
  // A certificate is about values; that the ranks get there is checked afresh.
  structure::Findings structure = structure::check(document);
  report.diagnostics = std::move(structure.violations);
  report.diagnostics.insert(report.diagnostics.end(), structure.undecided.begin(), structure.undecided.end());
  if (!report.diagnostics.empty()) return report;
  std::unique_ptr<Proof> proof;
  try {
    std::vector<std::string_view> body = body_of(document, certificate, report.diagnostics);
    if (!report.diagnostics.empty()) return report;
    Replay* replay = nullptr;
    proof = std::make_unique<Proof>(whole, limits, [&](solvers::AtomTable& atoms) {
      auto source = std::make_unique<Replay>(atoms, std::move(body), kHeaderLines + 1);
      replay = source.get();
      return source;
    });
    report.reference_instructions = static_cast<std::int64_t>(proof->reference_program().body.size());
    report.plan_instructions = static_cast<std::int64_t>(proof->plan_program().body.size());
    proof->run_reference();
    if (const auto contradictions = proof->judge_side_conditions().contradictions; !contradictions.empty()) {
      report.diagnostics.push_back(not_shown("no input satisfies what the reference needs: " + contradictions.front().text, contradictions.front().span));
      return report;
    }
    proof->run_plan();
    proof->check_claims();
    replay->finish();
    report.results = replay->checked();
    judge(*proof, report);
    if (report.diagnostics.empty()) report.verdict = CertificateReport::Verdict::valid;
  } catch (const Rejection& e) {
    report.diagnostics.push_back(e.why == Rejection::Why::malformed || !proof ? malformed(e.line, e.what()) : unproved(*proof, e));
  } catch (const solvers::BudgetExceeded& e) {
    report.diagnostics.push_back(not_shown(std::string("not checked to the end: ") + e.what(), {}));
  } catch (const SemanticsError& e) {
    report.diagnostics.push_back(not_shown(std::string("the plan or its reference has no meaning here: ") + e.what(), {}));
  } catch (const std::overflow_error&) {
    report.diagnostics.push_back(not_shown("integer arithmetic left 64 bits", {}));
  }
  return report;
}

}  // namespace shardproof::verifier
