// What the second witness found out before, on disk: by the hash of what was asked, the solver's version and that of the laws
// that reduce questions to integers. A wrong answer in there can only make the witness say that it confirmed what it did not:
// no verdict rests on it. Lines that were cut off or changed are ignored, and so is a file of another version. What does not begin
// like such a file is somebody else's: it is never written to.
#pragma once

#include <map>
#include <optional>
#include <string>

namespace shardproof::verifier {

class SmtAnswers {
 public:
  // An empty path: nothing is kept. A file that cannot be read has no answers.
  SmtAnswers(std::string path, std::string version);

  // Empty: confirmed; else why not.
  std::optional<std::string> find(const std::string& question) const;
  void add(const std::string& question, const std::string& answer);

  // Appends what is new; several processes may do so at the same time. Whether that worked: nothing depends on it.
  bool save();

 private:
  bool begin_anew(const std::string& text) const;
  bool append(const std::string& text) const;

  std::string path_;
  std::string header_;
  bool current_ = false;      // the file has this header
  bool replaceable_ = false;  // there is none, or one of another version
  std::map<std::string, std::string> known_, added_;
};

}  // namespace shardproof::verifier
