// Reads the tensors of a torch.save file: a zip file with a pickle of the structure (data.pkl) and a member for each
// storage (data/0, data/1, ...). Nothing in it is executed.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "stoker/formats/array.h"
#include "stoker/formats/pickle/pickle.h"
#include "stoker/io/zip.h"

namespace stoker {

class PtFile {
  public:
    // The file may hold a tensor (its name is empty), a list or tuple of tensors ("0", "1", ...), or a dict of tensors.
    // In place of a tensor it may have a NumPy array, a list of integers or a list of texts. Other values and objects
    // of other classes are skipped, unless they are containers of tensors. Reads the names in `wanted`, or all if it is
    // empty. Throws DataError for damaged files; Unsupported for files of torch before 1.6, tensors in nested
    // containers, and tensors whose elements share memory (expand()).
    explicit PtFile(const std::filesystem::path& path, std::span<const std::string> wanted = {});
    // Reads bytes in memory, which must outlive this object. For tests and the fuzzer.
    explicit PtFile(std::span<const std::byte> bytes);
    // Reads the tensors of a state_dict, or of one under "state_dict", "model_state_dict" or "model", as training
    // scripts save it. All but tensors is skipped. Throws as above.
    struct StateDict {};
    PtFile(const std::filesystem::path& path, StateDict tag);
    PtFile(std::span<const std::byte> bytes, StateDict tag);
    PtFile(const PtFile&) = delete;
    PtFile& operator=(const PtFile&) = delete;

    // Views into the mapped file for contiguous tensors, copies for others.
    const std::vector<ArrayView>& arrays() const { return arrays_; }

    // The lists of text, by name.
    const std::map<std::string, std::vector<std::string>>& texts() const { return texts_; }

    // The names of arrays and texts, without reading any.
    static std::vector<std::string> names(const std::filesystem::path& path);

    // Size of the file.
    std::int64_t bytes() const { return static_cast<std::int64_t>(zip_.bytes().size()); }

  private:
    struct Content {
        std::span<const std::byte> bytes;
        const ZipEntry* entry = nullptr;  // null if the bytes were inflated
    };

    PtFile(const std::filesystem::path& path, bool all, std::span<const std::string> wanted);
    void read();
    void read_structure(const ZipEntry& member);
    void read_byte_order();
    void add(std::string name, const PickleValue& value);
    void check_nesting(const std::string& name, const PickleValue& value) const;
    void add_tensor(std::string name, const PickledTensor& tensor);
    void add_integers(std::string name, const PickleValue& list);
    void add_texts(std::string name, const PickleValue& list);
    Content storage(std::string_view key);
    Content content(const ZipEntry& entry);
    std::span<std::byte> new_copy(const std::string& name, std::uint64_t size);
    [[noreturn]] void refuse(std::string expected, std::string got) const;
    [[noreturn]] void unsupported(std::string expected, std::string got, std::string hint) const;

    std::string path_;
    ZipFile zip_;
    Pickle pickle_;
    bool state_dict_ = false;
    bool all_ = true;  // ignore wanted_
    std::vector<std::string> wanted_;
    std::string folder_;  // "archive/": prefix of the members' names
    bool big_endian_ = false;
    std::vector<Buffer> copies_;
    std::uint64_t copied_ = 0;
    std::uint64_t text_bytes_ = 0;
    std::uint64_t scanned_ = 0;  // entries of containers visited
    std::map<const ZipEntry*, Buffer> inflated_;
    std::vector<std::string> names_;
    std::vector<ArrayView> arrays_;
    std::map<std::string, std::vector<std::string>> texts_;
};

}  // namespace stoker
