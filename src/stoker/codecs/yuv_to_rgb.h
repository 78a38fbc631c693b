// Planes of luma and chroma to RGB rows, with the integers of libyuv, by which Pillow converts AVIFs: more than 8 bits
// are cut, chroma of half size is interpolated, and a factor has 6 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stoker {

// Rows of bytes, or of uint16 for more than 8 bits.
struct YuvPlane {
    const std::uint8_t* data = nullptr;
    std::ptrdiff_t stride = 0;  // bytes from one row to the next
    int height = 0;
    int width = 0;
};

enum class YuvColors { bt601, bt709, bt2020 };

struct YuvImage {
    YuvPlane y, u, v;  // grey without u and v
    int bits = 8;      // 8 to 16
    YuvColors colors = YuvColors::bt601;
    bool full_range = true;
};

class YuvRows {
  public:
    // Chroma has the size of luma, or half of it, rounded up.
    explicit YuvRows(const YuvImage& image);

    // Writes a row of (width, 3).
    void read(int y, std::uint8_t* to);

  private:
    void widen(const YuvPlane& plane, int y, std::vector<int>& row) const;

    YuvImage image_;
    std::vector<int> u_;
    std::vector<int> v_;
};

}  // namespace stoker
