// A file that appears under its name only when it is complete.
//
//   FEWBIT_TRY(NewFile f, NewFile::create(path));
//   FEWBIT_OK(f.write(bytes));      // any number of times
//   FEWBIT_OK(f.publish());         // without it nothing is left behind, whatever ends the program
//
// Where the file system can, the bytes go to a file without a name, so that even a killed program leaves nothing; elsewhere to
// PATH.PID-N.part, removed by the destructor.  A link is followed: what it points to is replaced.  Devices, pipes and sockets are never
// replaced: they are written to directly, byte by byte as they come.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace fewbit {

class NewFile {
 public:
  static Result<NewFile> create(const std::string& path);
  NewFile(NewFile&& o) noexcept { *this = std::move(o); }
  NewFile& operator=(NewFile&& o) noexcept;
  ~NewFile();

  // Asks the file system for room now, so that a full disk is noticed at once.  One that cannot promise room is no error.
  Status reserve(u64 bytes);
  // Held back in memory up to 1 MiB.  After an error every further call fails.
  Status write(std::span<const u8> bytes);
  Status write(const void* data, size_t n) { return write({static_cast<const u8*>(data), n}); }
  // Everything on the disk, still without its name.
  Status close();
  // close(), then the name.
  Status publish();

 private:
  NewFile() = default;
  Error io(const char* what);
  Status send(std::span<const u8> bytes);
  Status flush();

  std::string path_;       // as the caller said it, for messages
  std::string target_;     // links resolved
  std::string temporary_;  // "" while the file has no name
  int fd_ = -1;
  bool direct_ = false, failed_ = false, closed_ = false;
  std::vector<u8> held_;
};

}  // namespace fewbit
