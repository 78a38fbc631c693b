// The exception classes of Stoker. A message is one line: the place, the expectation, the finding and a hint. The
// library throws; it never prints, exits or aborts.
#pragma once

#include <cerrno>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

namespace stoker {

// The parts of a message, printed as "[where] expected X, got Y; hint".
struct ErrorInfo {
    std::string where;
    std::string expected;
    std::string got;
    std::string hint = {};
};

// Catch this one: all exceptions of Stoker derive from it. what() is the message in one line.
class Error : public std::runtime_error {
  public:
    explicit Error(const ErrorInfo& info);
    explicit Error(const std::string& line);  // the whole message
};

// The caller passed an invalid recipe key, option or argument.
class InvalidArgument : public Error {
    using Error::Error;
};

// The operating system reported a failure: a missing path, a full disk, a read error.
class IoError : public Error {
    using Error::Error;
};

// The CUDA runtime reported a failure.
class CudaError : public Error {
    using Error::Error;
};

// Valid input that this build or this version does not support.
class Unsupported : public Error {
    using Error::Error;
};

// A bug in Stoker itself.
class InternalError : public Error {
    using Error::Error;
};

// The known place of bad data: file, the sample's key and index in it, byte offset.
struct DataPlace {
    std::string path;
    std::string key = {};
    std::optional<std::int64_t> offset = {};
    std::optional<std::int64_t> index = {};
};

// Data that violates its format.
class DataError : public Error {
  public:
    DataError(DataPlace place, const ErrorInfo& info);

    const DataPlace& place() const { return place_; }
    const ErrorInfo& info() const { return info_; }

    // The same error, with the unset fields of its place taken from `outer`: for callers that know more of the place.
    DataError located(const DataPlace& outer) const;

  private:
    DataPlace place_;
    ErrorInfo info_;
};

// Calls `call` and adds `outer` to the places of its DataErrors.
template <typename Call>
decltype(auto) with_place(const DataPlace& outer, const Call& call) {
    try {
        return call();
    } catch (const DataError& error) {
        throw error.located(outer);
    }
}

// A value of errno as a clause: "it does not exist", "the disk is full".
std::string errno_text(int code = errno);

// The error of a failed system call: "[path] expected a readable file, but it does not exist; hint".
IoError errno_error(const std::string& where, const std::string& expected, int code = errno,
                    const std::string& hint = {});

}  // namespace stoker
