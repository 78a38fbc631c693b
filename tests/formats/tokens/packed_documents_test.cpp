// Rows of documents hold every token once, and their number is that of the plain best fit.
#include "stoker/formats/tokens/packed_documents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "formats/field_value_support.h"
#include "stoker/base/error.h"
#include "stoker/base/rng.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using namespace testing;

// Document i has the tokens 1000 i, 1000 i + 1, ...
class Documents final : public Dataset {
  public:
    Documents(std::vector<std::int64_t> lengths, bool known) : lengths_(std::move(lengths)), known_(known) {}

    std::int64_t size() const override { return std::ssize(lengths_); }
    bool has_image() const override { return false; }
    std::span<const Field> fields() const override { return fields_; }
    std::optional<std::int64_t> entries(std::int64_t index, std::size_t /*at*/) const override {
        return known_ ? std::optional(lengths_[static_cast<std::size_t>(index)]) : std::nullopt;
    }
    void read(std::int64_t index, Sample& sample) const override {
        const std::int64_t length = lengths_[static_cast<std::size_t>(index)];
        if (length < 0) {
            throw DataError({}, {.where = "test", .expected = "a good document", .got = "a bad one"});
        }
        std::vector<std::int32_t> tokens(static_cast<std::size_t>(length));
        std::iota(tokens.begin(), tokens.end(), static_cast<std::int32_t>(1000 * index));
        sample.field(0).copy_elements(tokens);
    }

  private:
    std::vector<std::int64_t> lengths_;
    bool known_;
    std::vector<Field> fields_ = {{.name = "text", .kind = FieldKind::tokens, .dtype = DType::int32, .shape = {-1}}};
};

PackedDocuments packed(const std::vector<std::int64_t>& lengths, std::int64_t context, bool known = false) {
    return {std::make_unique<Documents>(lengths, known), 0, context};
}

std::vector<std::int64_t> values(const Dataset& dataset, std::int64_t row, std::size_t field) {
    Sample sample;
    dataset.read(row, sample);
    return numbers_of<std::int64_t>(sample.fields.at(field));
}

// One row after the other, by the definition.
std::vector<std::int64_t> plain_best_fit(const std::vector<std::int64_t>& lengths, std::int64_t capacity) {
    std::vector<std::size_t> order(lengths.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return lengths[i]; });
    std::vector<std::int64_t> rooms;
    for (const std::size_t i : order) {
        auto best = rooms.end();
        for (auto room = rooms.begin(); room != rooms.end(); ++room) {
            if (*room >= lengths[i] && (best == rooms.end() || *room < *best)) {
                best = room;
            }
        }
        if (best == rooms.end()) {
            rooms.push_back(capacity - lengths[i]);
        } else {
            *best -= lengths[i];
        }
    }
    return rooms;
}

TEST(BestFit, IsThePlainOne) {
    Rng rng({.seed = 4});
    for (int round = 0; round < 200; ++round) {
        const auto capacity = static_cast<std::int64_t>(2 + rng.next() % 60);
        std::vector<std::int64_t> lengths(1 + rng.next() % 80);
        for (std::int64_t& length : lengths) {
            length = static_cast<std::int64_t>(1 + rng.next() % static_cast<std::uint32_t>(capacity));
        }
        const std::vector<std::int64_t> rows = best_fit_rows(lengths, capacity);
        std::vector<std::int64_t> rooms(static_cast<std::size_t>(std::ranges::max(rows)) + 1, capacity);
        for (std::size_t i = 0; i < rows.size(); ++i) {
            rooms[static_cast<std::size_t>(rows[i])] -= lengths[i];
        }
        EXPECT_GE(std::ranges::min(rooms), 0);
        std::vector<std::int64_t> wanted = plain_best_fit(lengths, capacity);
        std::ranges::sort(rooms);
        std::ranges::sort(wanted);
        EXPECT_EQ(rooms, wanted);
    }
}

TEST(PackedDocuments, RowsHaveSegmentsAndPositions) {
    const PackedDocuments rows = packed({3, 5, 2}, 7);
    ASSERT_EQ(rows.size(), 2);
    EXPECT_THAT(values(rows, 0, 0), ElementsAre(0, 1, 2, 1000, 1001, 1002, 1003, 1004));
    EXPECT_THAT(values(rows, 0, 1), ElementsAre(1, 1, 1, 2, 2, 2, 2, 2));
    EXPECT_THAT(values(rows, 0, 2), ElementsAre(0, 1, 2, 0, 1, 2, 3, 4));
    EXPECT_THAT(values(rows, 1, 0), ElementsAre(2000, 2001, 0, 0, 0, 0, 0, 0));
    EXPECT_THAT(values(rows, 1, 1), ElementsAre(1, 1, 0, 0, 0, 0, 0, 0));
    EXPECT_EQ(rows.key(1), "2");
    EXPECT_EQ(rows.advice(), "3 documents in 2 rows of 8 tokens, 37.5 % padding");
}

TEST(PackedDocuments, LongDocumentsAreCutAsAStream) {
    const PackedDocuments rows = packed({11}, 4);
    ASSERT_EQ(rows.size(), 3);
    EXPECT_THAT(values(rows, 0, 0), ElementsAre(0, 1, 2, 3, 4));
    EXPECT_THAT(values(rows, 1, 0), ElementsAre(4, 5, 6, 7, 8));
    EXPECT_THAT(values(rows, 2, 0), ElementsAre(8, 9, 10, 0, 0));
    EXPECT_EQ(rows.key(1), "0+4");
}

TEST(PackedDocuments, EveryPredictionComesOnce) {
    Rng rng({.seed = 9});
    for (const bool known : {false, true}) {
        std::vector<std::int64_t> lengths(3000);
        for (std::int64_t& length : lengths) {
            length = static_cast<std::int64_t>(rng.next() % 90);
        }
        const PackedDocuments rows = packed(lengths, 32, known);
        std::map<std::int64_t, int> predicted;
        for (std::int64_t row = 0; row < rows.size(); ++row) {
            const auto tokens = values(rows, row, 0);
            const auto segments = values(rows, row, 1);
            const auto positions = values(rows, row, 2);
            for (std::size_t i = 1; i < tokens.size(); ++i) {
                if (segments[i] != 0 && segments[i] == segments[i - 1]) {
                    EXPECT_EQ(tokens[i], tokens[i - 1] + 1);
                    EXPECT_EQ(positions[i], positions[i - 1] + 1);
                    ++predicted[tokens[i]];
                }
            }
        }
        std::int64_t wanted = 0;
        for (const std::int64_t length : lengths) {
            wanted += std::max<std::int64_t>(length - 1, 0);
        }
        EXPECT_EQ(std::ssize(predicted), wanted);
        EXPECT_TRUE(std::ranges::all_of(predicted, [](const auto& entry) { return entry.second == 1; }));
    }
}

TEST(PackedDocuments, BadDocumentsHaveARowOfTheirOwn) {
    const PackedDocuments rows = packed({3, -1, 4}, 7);
    ASSERT_EQ(rows.size(), 2);
    int bad = 0;
    for (std::int64_t row = 0; row < rows.size(); ++row) {
        Sample sample;
        try {
            rows.read(row, sample);
        } catch (const DataError&) {
            EXPECT_EQ(rows.key(row), "1");
            ++bad;
        }
    }
    EXPECT_EQ(bad, 1);
    EXPECT_THROW(packed({0, 1}, 7), DataError);
}

}  // namespace
}  // namespace stoker
