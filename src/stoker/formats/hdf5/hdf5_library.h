// The HDF5 C library, tamed: one lock around every call, ids that close themselves, errors as exceptions instead of
// lines on stderr. Included by sources only, since it brings the library's own header.
#pragma once

// One set of function versions, from 1.10 to today's library.
#define H5_USE_110_API
#include <hdf5.h>

#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace stoker {

// The library knows at best one lock of its own, and Debian's build has none: who holds this one may call it. It may
// be taken again by its holder. While it is held, the library prints nothing.
class Hdf5Lock {
  public:
    Hdf5Lock();
    Hdf5Lock(const Hdf5Lock&) = delete;
    Hdf5Lock& operator=(const Hdf5Lock&) = delete;
    ~Hdf5Lock();

  private:
    std::unique_lock<std::recursive_mutex> lock_;
    H5E_auto2_t printer_ = nullptr;
    void* printer_data_ = nullptr;
};

class Hdf5Id {
  public:
    using Close = herr_t (*)(hid_t);

    Hdf5Id() = default;
    // Throws DataError, with the library's reason, where `id` says that the call which made it failed.
    Hdf5Id(hid_t id, Close closer, const std::string& path, std::string_view expected);
    Hdf5Id(Hdf5Id&& other) noexcept;
    Hdf5Id& operator=(Hdf5Id&& other) noexcept;
    Hdf5Id(const Hdf5Id&) = delete;
    Hdf5Id& operator=(const Hdf5Id&) = delete;
    ~Hdf5Id();

    hid_t get() const { return id_; }

    // For who has to know whether it worked; negative where it did not.
    herr_t close();

  private:
    hid_t id_ = H5I_INVALID_HID;
    Close close_ = nullptr;
};

// The innermost reason of the failure just seen, as "unable to load heap (H5HG_read)"; clears it.
std::string hdf5_reason();

// `expected` was to come of a call that failed: a DataError with the library's reason.
[[noreturn]] void fail_hdf5(const std::string& path, std::string_view expected);

// Throws as fail_hdf5 does where `status` is negative; hands it back otherwise.
template <typename Status>
Status check_hdf5(Status status, const std::string& path, std::string_view expected) {
    if (status < 0) {
        fail_hdf5(path, expected);
    }
    return status;
}

// Read-only and without the library's file lock, which fails on many network and read-only file systems.
Hdf5Id open_hdf5(const std::string& path);

// Names of all datasets, as "group/name", in order of their names. Backend that lead to other files, or nowhere, are
// not followed. Throws Unsupported past 10,000: a data set of one array for each image.
std::vector<std::string> list_hdf5(const Hdf5Id& file, const std::string& path);

}  // namespace stoker
