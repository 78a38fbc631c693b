// The tensors in a file as torch.save writes it: a zip file with a pickle of the structure (data.pkl) and a member for
// each storage (data/0, data/1, ...). Nothing in it is executed.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "stoker/formats/array.h"
#include "stoker/formats/pickle.h"
#include "stoker/formats/zip.h"

namespace stoker {

class PtFile {
  public:
    // Takes a tensor (whose name is empty), a list or tuple of tensors ("0", "1", ...), or a dict of tensors. NumPy
    // arrays and lists of integers are as good; numbers, texts and lists of texts beside them are left out. Throws
    // DataError for damaged files; Unsupported for files of torch before 1.6, for nested dicts and lists, bfloat16,
    // and tensors that repeat their elements.
    explicit PtFile(const std::filesystem::path& path);
    // Of bytes in memory, which have to outlive this object.
    explicit PtFile(std::span<const std::byte> bytes);
    PtFile(const PtFile&) = delete;
    PtFile& operator=(const PtFile&) = delete;

    // Views into the mapped file where the elements lie there one after the other; copies otherwise.
    const std::vector<ArrayView>& arrays() const { return arrays_; }

    // Of the file.
    std::int64_t bytes() const { return static_cast<std::int64_t>(zip_.bytes().size()); }

  private:
    struct Storage {
        std::span<const std::byte> bytes;
        const ZipEntry* entry = nullptr;  // null where the bytes are inflated ones
    };

    void read();
    void read_structure(const ZipEntry& member);
    void read_byte_order();
    void add(std::string name, const PickleValue& value);
    void add_array(ArrayView array);
    void add_tensor(std::string name, const PickledTensor& tensor);
    void add_integers(std::string name, const PickleValue& list);
    Storage storage(std::string_view key);
    std::span<std::byte> new_copy(const std::string& name, std::uint64_t size);
    [[noreturn]] void refuse(std::string expected, std::string got) const;
    [[noreturn]] void unsupported(std::string expected, std::string got, std::string hint) const;

    std::string path_;
    ZipFile zip_;
    Pickle pickle_;
    std::string folder_;  // "archive/": what the members' names begin with
    bool big_endian_ = false;
    std::vector<Buffer> copies_;
    std::uint64_t copied_ = 0;
    std::uint64_t scanned_ = 0;  // entries of lists looked at
    std::map<std::string, Buffer, std::less<>> inflated_;
    std::vector<ArrayView> arrays_;
};

}  // namespace stoker
