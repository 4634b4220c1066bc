#include "tools/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <system_error>

#include "tools/command_line.h"

namespace shardproof::tools {

namespace {

[[noreturn]] void cannot_write(const std::string& path, const std::string& reason) {
  throw UsageError("cannot write '" + path + "': " + reason);
}

// An open temporary file next to the target; removed unless renamed.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& target) : target_(target), name_(target + ".XXXXXX") {
    const int descriptor = ::mkstemp(name_.data());
    if (descriptor < 0) cannot_write(target_, std::strerror(errno));
    // mkstemp makes it private; a result has the permissions of any new file.
    const mode_t mask = ::umask(0);
    ::umask(mask);
    ::fchmod(descriptor, 0666 & ~mask);
    ::close(descriptor);
  }
  ~TemporaryFile() {
    if (!renamed_) ::unlink(name_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::string& name() const { return name_; }

  void rename() {
    const int descriptor = ::open(name_.c_str(), O_RDONLY | O_CLOEXEC);
    const bool on_disk = descriptor >= 0 && ::fsync(descriptor) == 0;
    const int error = errno;
    if (descriptor >= 0) ::close(descriptor);
    if (!on_disk) cannot_write(target_, std::strerror(error));
    if (::rename(name_.c_str(), target_.c_str()) != 0) cannot_write(target_, std::strerror(errno));
    renamed_ = true;
  }

 private:
  std::string target_;
  std::string name_;
  bool renamed_ = false;
};

}  // namespace

void require_folder(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (path == "-" || folder.empty() || std::filesystem::is_directory(folder, error)) return;
  cannot_write(path, "there is no folder '" + folder.string() + "'");
}

void write_file(const std::string& path, const std::function<void(std::ostream&)>& write) {
  if (path == "-") {
    write(std::cout);
    std::cout.flush();
    if (!std::cout) cannot_write("standard output", "write error");
    return;
  }
  require_folder(path);
  std::error_code error;
  // Renaming over a device or pipe would replace it by a file.
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error)) {
    std::ofstream out(path, std::ios::binary);
    write(out);
    out.close();
    if (!out) cannot_write(path, std::strerror(errno));
    return;
  }
  TemporaryFile temporary(path);
  std::ofstream out(temporary.name(), std::ios::binary | std::ios::trunc);
  write(out);
  out.close();
  if (!out) cannot_write(path, std::strerror(errno));
  temporary.rename();
}

}  // namespace shardproof::tools
