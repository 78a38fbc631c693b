// A stream of tokens as windows: the input of a language model, one token behind it for the targets. The samples have
// no image.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/base/file.h"
#include "stoker/base/map_or_read.h"
#include "stoker/formats/array.h"
#include "stoker/formats/dataset.h"

namespace stoker {

// True for x.bin, x.npy with one dimension of integers, and a folder with train.bin and val.bin.
bool is_token_path(const std::string& path);

// True for a folder with train.bin and val.bin.
bool tokens_have_splits(const std::string& path);

class TokenDataset final : public Dataset {
  public:
    // x.bin holds little-endian uint16, as nanoGPT writes it, x.u32.bin uint32; the header of llm.c's .bin files is
    // recognised, and Megatron-LM's x.idx has the type of x.bin. x.npy holds uint8, uint16, uint32, int32 or int64.
    // Sample i of `context` = T has the tokens [i * T, i * T + T + 1), as field `tokens` int64 (T + 1); `fields.more`
    // may give it another name. Tokens behind the last whole window are left out. Throws DataError for a file with less
    // than T + 1 tokens or of another size, InvalidArgument for a context outside of 1 to 2^20, Unsupported for other
    // element types and fields.
    TokenDataset(const std::string& path, Split split, std::int64_t context, const FieldNames& fields = {});

    std::int64_t size() const override { return windows_; }
    // Throws DataError for a negative token.
    void read(std::int64_t index, Sample& sample) const override;
    void prefetch(std::span<const std::int64_t> indices) const override;
    bool has_image() const override { return false; }
    std::span<const Field> fields() const override { return fields_; }
    std::optional<std::int64_t> label(std::int64_t /*index*/) const override { return -1; }
    std::string_view format() const override { return "tokens"; }
    std::string path() const override { return path_; }
    std::int64_t bytes() const override { return static_cast<std::int64_t>(map_.bytes().size()); }

    // Tokens behind the last whole window, in no sample.
    std::int64_t left_over() const {
        return static_cast<std::int64_t>(tokens_.size() / item_bytes()) - windows_ * context_ - 1;
    }

  private:
    void open_npy();
    void open_bin();
    bool open_megatron();  // false without an index
    std::size_t item_bytes() const { return static_cast<std::size_t>(type_.item_size); }
    // The bytes of window `index` in the map, and their offset in the file.
    std::span<const std::byte> window(std::int64_t index) const;
    std::uint64_t offset_of(std::int64_t index) const;

    std::string path_;  // of the file
    std::int64_t context_;
    File file_;
    MappedFile map_;
    MapOrRead map_or_read_;
    ArrayType type_;
    std::size_t begin_ = 0;  // of the tokens in the file
    std::span<const std::byte> tokens_;
    std::int64_t windows_ = 0;
    std::vector<Field> fields_;
};

}  // namespace stoker
