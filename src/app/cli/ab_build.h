// The side of `ab` that is another build of this program, in a process of its own.
//
// It is run as `PATH ab --worker ...` and answers lines on its standard input with lines on its standard output: "hello" with "ready" and
// the bytes of weights that one operation reads, "run N" with the seconds that N operations took, "bits" with the bits of the last result
// as words in hexadecimal.
#pragma once
#include <sys/types.h>

#include "kernel/ab.h"

namespace fewbit::cli {

class Build : public kernel::Contestant {
 public:
  // Runs `path` with `args`; it must answer each request within `limit` seconds.  Errors: nothing answers, or not as a build does.
  static Result<std::unique_ptr<kernel::Contestant>> start(const std::string& path, const std::vector<std::string>& args, f64 limit);
  // Ends the process and all that it has started.
  ~Build() override;
  f64 run(int times) override;
  std::vector<u32> bits() override;
  bool lost() const override { return !asked_.empty(); }
  u64 bytes() const override { return bytes_; }
  std::string trouble() const;  // why it is lost

 private:
  Build(std::string path, f64 limit) : path_(std::move(path)), limit_(limit) {}
  Status launch(const std::vector<std::string>& args);
  // False, and lost from then on, when the process has ended, stays silent, or Ctrl-C came.
  bool ask(const std::string& question, std::string& answer);
  bool receive(std::string& answer);
  void wrong(const std::string& question, const std::string& answer, const char* wanted);
  std::string message() const;               // what it wrote to its standard error last
  std::string path_, asked_, wrong_, rest_;  // asked_: what was not answered (well); rest_: read, but not yet a line
  f64 limit_;
  bool silent_ = false;
  pid_t pid_ = -1;  // also its process group
  u64 bytes_ = 0;
  int in_ = -1, out_ = -1;
  std::FILE* messages_ = nullptr;
};

// Answers on standard input and output as a build does, until nobody asks any more.
Status serve(kernel::Contestant& c);

bool is_build(const std::string& name);  // a path with a slash, and a program that can be run lies there

}  // namespace fewbit::cli
