#include "stoker/codecs/yuv_to_rgb.h"

#include <algorithm>
#include <cstring>

namespace stoker {
namespace {

// Factors of 64: of luma (times 65536 / 257), of U for blue and green, of V for green and red. 64 * 2.018 is 129, which
// libyuv limits to 128.
struct Factors {
    int luma, bias, blue, green_u, green_v, red;
};

Factors factors_of(YuvColors colors, bool full_range) {
    constexpr Factors kFactors[3][2] = {{{18997, -1160, 128, 25, 52, 102}, {16320, 32, 113, 22, 46, 90}},
                                        {{18997, -1160, 128, 14, 34, 115}, {16320, 32, 119, 12, 30, 101}},
                                        {{19003, -1160, 128, 12, 42, 107}, {16320, 32, 120, 11, 37, 94}}};
    return kFactors[static_cast<int>(colors)][full_range ? 1 : 0];
}

std::uint8_t clamped(int value) {
    return static_cast<std::uint8_t>(std::clamp(value >> 6, 0, 255));
}

// Cut to 8 bits.
int sample(const YuvPlane& plane, int y, int x, int bits) {
    const std::uint8_t* row = plane.data + y * plane.stride;
    return bits > 8 ? reinterpret_cast<const std::uint16_t*>(row)[x] >> (bits - 8) & 255 : row[x];
}

}  // namespace

YuvRows::YuvRows(const YuvImage& image) : image_(image) {
    if (image.u.data != nullptr) {
        u_.resize(static_cast<std::size_t>(image.y.width));
        v_.resize(static_cast<std::size_t>(image.y.width));
    }
}

// A chroma sample is in the middle of its 2 x 1 or 2 x 2 pixels: the nearer of two has the weight 3. The last column
// takes the nearest alone, also where a width is odd.
void YuvRows::widen(const YuvPlane& plane, int y, std::vector<int>& row) const {
    const bool halved_rows = plane.height < image_.y.height;
    const bool halved_columns = plane.width < image_.y.width;
    const int near_y = halved_rows ? y / 2 : y;
    const int far_y = std::clamp(y % 2 == 0 ? near_y - 1 : near_y + 1, 0, plane.height - 1);
    const bool mixes_rows = halved_rows && far_y != near_y;
    const auto at = [&](int row_y, int x) { return sample(plane, row_y, x, image_.bits); };
    for (int x = 0; x < image_.y.width; ++x) {
        const int near_x = halved_columns ? x / 2 : x;
        const int far_x = std::clamp(x % 2 == 0 ? near_x - 1 : near_x + 1, 0, plane.width - 1);
        const bool mixes_columns = halved_columns && far_x != near_x && x + 1 < image_.y.width;
        int value = at(near_y, near_x);
        if (mixes_rows && mixes_columns) {
            value = (9 * value + 3 * at(near_y, far_x) + 3 * at(far_y, near_x) + at(far_y, far_x) + 8) >> 4;
        } else if (mixes_columns) {
            value = (3 * value + at(near_y, far_x) + 2) >> 2;
        } else if (mixes_rows) {
            value = (3 * value + at(far_y, near_x) + 2) >> 2;
        }
        row[static_cast<std::size_t>(x)] = value;
    }
}

void YuvRows::read(int y, std::uint8_t* to) {
    const Factors f = factors_of(image_.colors, image_.full_range);
    if (image_.u.data == nullptr) {
        for (int x = 0; x < image_.y.width; ++x, to += 3) {
            const int luma = sample(image_.y, y, x, image_.bits);
            const int level = image_.full_range ? luma : (std::clamp(luma - 16, 0, 219) * 255 + 109) / 219;
            std::memset(to, level, 3);
        }
        return;
    }
    widen(image_.u, y, u_);
    widen(image_.v, y, v_);
    for (int x = 0; x < image_.y.width; ++x, to += 3) {
        const auto wide = 257 * static_cast<std::uint32_t>(sample(image_.y, y, x, image_.bits));
        const int luma = static_cast<int>(wide * static_cast<std::uint32_t>(f.luma) >> 16) + f.bias;
        const auto at = static_cast<std::size_t>(x);
        const int u = u_[at] - 128;
        const int v = v_[at] - 128;
        to[0] = clamped(luma + v * f.red);
        to[1] = clamped(luma - (u * f.green_u + v * f.green_v));
        to[2] = clamped(luma + u * f.blue);
    }
}

}  // namespace stoker
