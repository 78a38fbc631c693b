// Views address the right pixels, also with padded rows, and images reuse their memory.
#include "stoker/base/image.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace stoker {
namespace {

// Rows of `width * channels` bytes that count up from 0, with `padding` bytes of 255 after each.
std::vector<std::uint8_t> padded_pixels(int height, int width, int channels, int padding) {
    std::vector<std::uint8_t> bytes;
    std::uint8_t next = 0;
    for (int y = 0; y < height; ++y) {
        for (int i = 0; i < width * channels; ++i) {
            bytes.push_back(next++);
        }
        bytes.insert(bytes.end(), static_cast<std::size_t>(padding), 255);
    }
    return bytes;
}

TEST(ImageView, AddressesPaddedRows) {
    auto bytes = padded_pixels(4, 5, 3, 7);
    const ImageView view{bytes.data(), 4, 5, 3, 22};
    EXPECT_EQ(view.row_bytes(), 15u);
    EXPECT_EQ(view.row(0)[0], 0);
    EXPECT_EQ(view.row(2)[0], 30);
    EXPECT_EQ(view.row(3)[14], 59);
}

TEST(ImageView, CropsNestAndShareThePixels) {
    auto bytes = padded_pixels(4, 5, 3, 7);
    const ImageView view{bytes.data(), 4, 5, 3, 22};
    const ImageView part = view.crop({.top = 1, .left = 2, .height = 3, .width = 2});
    EXPECT_EQ(part.height, 3);
    EXPECT_EQ(part.width, 2);
    EXPECT_EQ(part.channels, 3);
    for (int y = 0; y < 3; ++y) {
        for (int i = 0; i < 6; ++i) {
            EXPECT_EQ(part.row(y)[i], (y + 1) * 15 + 6 + i);
        }
    }
    const ImageView pixel = part.crop({.top = 2, .left = 1, .height = 1, .width = 1});
    EXPECT_EQ(pixel.row(0)[0], 3 * 15 + 9);
    pixel.row(0)[0] = 200;
    EXPECT_EQ(view.row(3)[9], 200);
    EXPECT_EQ(view.crop({0, 0, 4, 5}).row(3), view.row(3));
}

TEST(ImageView, TurnsIntoAConstView) {
    std::uint8_t byte = 9;
    const ImageView view{&byte, 1, 1, 1, 1};
    const ConstImageView constant = view;
    EXPECT_EQ(constant.row(0), &byte);
    EXPECT_EQ(constant.stride, 1);
}

TEST(Box, ComparesAllFourNumbers) {
    const Box box{1, 2, 3, 4};
    EXPECT_EQ(box, (Box{.top = 1, .left = 2, .height = 3, .width = 4}));
    EXPECT_NE(box, (Box{0, 2, 3, 4}));
    EXPECT_NE(box, (Box{1, 0, 3, 4}));
    EXPECT_NE(box, (Box{1, 2, 0, 4}));
    EXPECT_NE(box, (Box{1, 2, 3, 0}));
}

TEST(CopyPixels, KeepsToThePixelsOfBothSides) {
    auto bytes = padded_pixels(3, 4, 3, 5);
    std::vector<std::uint8_t> target(3 * 20, 77);
    copy_pixels(ImageView{bytes.data(), 3, 4, 3, 17}, ImageView{target.data(), 3, 4, 3, 20});
    for (int y = 0; y < 3; ++y) {
        for (int i = 0; i < 20; ++i) {
            EXPECT_EQ(target[static_cast<std::size_t>(y * 20 + i)], i < 12 ? y * 12 + i : 77) << y << "," << i;
        }
    }
}

TEST(Image, ReusesItsMemoryFromOneResetToTheNext) {
    Image image(10, 20, 3);
    EXPECT_EQ(image.bytes(), 600u);
    const auto* memory = image.view().data;
    image.reset(4, 5, 1);
    EXPECT_EQ(image.bytes(), 20u);
    EXPECT_EQ(image.height(), 4);
    EXPECT_EQ(image.width(), 5);
    EXPECT_EQ(image.channels(), 1);
    EXPECT_EQ(image.view().data, memory);
    EXPECT_EQ(image.view().stride, 5);
    image.reset(0, 0, 3);
    EXPECT_EQ(image.bytes(), 0u);
}

TEST(ImageSink, TakesAnImageRowByRow) {
    Image image;
    ImageSink sink(image);
    RowSink& decoder_side = sink;
    decoder_side.start(3, 2, 3);
    for (int y = 0; y < 3; ++y) {
        std::uint8_t* row = decoder_side.row(y);
        std::iota(row, row + 6, static_cast<std::uint8_t>(y * 6));
    }
    decoder_side.finish();
    const ConstImageView view = std::as_const(image).view();
    ASSERT_EQ(view.height, 3);
    ASSERT_EQ(view.row_bytes(), 6u);
    for (int i = 0; i < 18; ++i) {
        EXPECT_EQ(view.data[i], i);
    }
}

}  // namespace
}  // namespace stoker
