// Rows of several documents: short sequences of tokens are joined, so that little of a row is padding. A model keeps
// them apart by their segment ids, and counts positions in each from 0.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "stoker/formats/dataset.h"

namespace stoker {

// The names of the fields next to the tokens.
inline constexpr const char* kSegmentIds = "segment_ids";
inline constexpr const char* kPositionIds = "position_ids";

// Best fit, longest first: an item goes to the fullest row that has room for it, and to the latest of several. Returns
// the row of each; none is longer than `capacity`.
std::vector<std::int64_t> best_fit_rows(std::span<const std::int64_t> lengths, std::int64_t capacity);

// Fields of a row of `context` = T, all int64 (T + 1): the tokens, under their name in the documents; `segment_ids`, 1
// for the first document of the row, 2 for the second, 0 for padding; `position_ids`, from 0 in each document. A
// document of more than T + 1 tokens is cut into pieces that share one token, as a stream of tokens is; one of fewer
// than 2 is left out, since nothing is predicted. The rows depend on the lengths alone, and join documents that are
// near each other.
class PackedDocuments final : public Dataset {
  public:
    // `documents` have a field of any length, number `tokens`. Reads all documents whose length the data set does not
    // know. Throws DataError if none has 2 tokens.
    PackedDocuments(std::unique_ptr<Dataset> documents, std::size_t tokens, std::int64_t context);

    std::int64_t size() const override { return std::ssize(begins_) - 1; }
    // A damaged document makes its row a bad sample; one that could not be read at the beginning has its own row.
    void read(std::int64_t index, Sample& sample) const override;
    void prefetch(std::span<const std::int64_t> indices) const override;
    bool has_image() const override { return false; }
    std::span<const Field> fields() const override { return fields_; }
    std::vector<Field> stored_fields() const override { return documents_->stored_fields(); }
    std::optional<std::int64_t> label(std::int64_t /*index*/) const override { return -1; }
    std::string key(std::int64_t index) const override;  // of its first document
    std::string_view format() const override { return documents_->format(); }
    std::string path() const override { return documents_->path(); }
    std::string advice() const override;  // how many documents, rows, and the share of padding
    std::int64_t bytes() const override { return documents_->bytes(); }

  private:
    // Tokens [begin, begin + count) of a document.
    struct Piece {
        std::int64_t document = 0;
        std::int64_t begin = 0;
        std::int64_t count = 0;
    };

    std::vector<Piece> cut() const;
    std::span<const Piece> row(std::int64_t index) const;

    std::unique_ptr<Dataset> documents_;
    std::size_t at_;
    std::int64_t width_;  // context + 1
    std::vector<Field> fields_;
    std::vector<Piece> pieces_;         // by row
    std::vector<std::int64_t> begins_;  // of each row in `pieces_`, and the end
};

}  // namespace stoker
