// Plan files: JSON -> Document. The format is specified in ir/README.md and ir/plan.schema.json.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "ir/diagnostic.h"
#include "ir/plan.h"

namespace shardproof::ir {

// Limits that keep hostile files from exhausting the machine.
struct ReadLimits {
  std::size_t max_bytes = std::size_t{1} << 30;
  int max_depth = 64;
  std::size_t max_nodes = std::size_t{1} << 26;  // JSON values
  std::size_t max_errors = 100;                  // findings before the reader gives up
};

// Reads and type-checks a document. Every problem is reported in `sink` with its span; nullopt if there was
// any error. Never throws on bad input.
std::optional<Document> read_document(std::shared_ptr<const SourceFile> source, DiagnosticSink& sink,
                                      const ReadLimits& limits = {});

// The file at `path` ("-": standard input). A missing, unreadable or too large file is a finding and null.
std::shared_ptr<const SourceFile> read_source_file(const std::string& path, DiagnosticSink& sink,
                                                   const ReadLimits& limits = {});

// Both in one.
std::optional<Document> read_document_file(const std::string& path, DiagnosticSink& sink,
                                           const ReadLimits& limits = {});

}  // namespace shardproof::ir
