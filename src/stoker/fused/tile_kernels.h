// Products in register tiles for the vector sets: V::kTileRows x V::kTileRegs registers of sums, one row of `b` and one
// broadcast of `a` at a time. (Interleaving updates with the next tile's products, to hide divisions, was not faster.)
#pragma once

#include "stoker/fused/row_kernels.h"

namespace stoker {

template <typename V>
struct TileKernels {
    using Reg = typename V::Reg;
    static constexpr int kMaxRegs = V::kTileRegs;
    static constexpr int kMaxColumns = kMaxRegs * V::kLanes;

    // Narrow tiles have more rows, so that the number of sums stays the same.
    static constexpr int max_rows(int regs) { return V::kTileRows * V::kTileRegs / (regs < 2 ? 2 : regs); }

    template <int kRows, int kRegs>
    [[gnu::always_inline]] static void multiply(Reg (&sums)[kRows][kRegs], const float* a, std::ptrdiff_t a_row,
                                                const float* b) {
        Reg row[kRegs];
#pragma GCC unroll 16
        for (int r = 0; r < kRegs; ++r) {
            row[r] = V::load(b + r * V::kLanes);
        }
#pragma GCC unroll 16
        for (int i = 0; i < kRows; ++i) {
            const Reg factor = V::set(a[i * a_row]);
#pragma GCC unroll 16
            for (int r = 0; r < kRegs; ++r) {
                sums[i][r] = V::fma(factor, row[r], sums[i][r]);
            }
        }
    }

    // ---- products to memory ----

    template <int kRows, int kRegs>
    static void tile(const Product& p, const float* start, float* out) {
        Reg sums[kRows][kRegs];
#pragma GCC unroll 16
        for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
            for (int r = 0; r < kRegs; ++r) {
                sums[i][r] =
                    p.begins ? V::set(start != nullptr ? start[i] : 0.0f) : V::load(out + i * kPanel + r * V::kLanes);
            }
        }
        const float* a = p.a;
        const float* b = p.b;
        for (int k = 0; k < p.depth; ++k) {
            multiply(sums, a, p.a_row, b);
            a += p.a_step;
            b += p.b_stride;
        }
#pragma GCC unroll 16
        for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
            for (int r = 0; r < kRegs; ++r) {
                V::store(out + i * kPanel + r * V::kLanes, sums[i][r]);
            }
        }
    }

    template <int kRegs, int kRows = max_rows(kRegs)>
    static void tile_of(int rows, const Product& p, const float* start, float* out) {
        if constexpr (kRows > 0) {
            return rows == kRows ? tile<kRows, kRegs>(p, start, out) : tile_of<kRegs, kRows - 1>(rows, p, start, out);
        }
    }

    // Calls body(first row, rows) for tiles of nearly equal height, at most `highest` rows.
    template <typename Body>
    static void for_row_tiles(int rows, int highest, const Body& body) {
        const int tiles = (rows + highest - 1) / highest;
        for (int t = 0; t < tiles; ++t) {
            const int first = rows * t / tiles;
            body(first, rows * (t + 1) / tiles - first);
        }
    }

    template <int kRegs = kMaxRegs>
    static void product_columns(int regs, const Product& p, const float* start, float* out) {
        if constexpr (kRegs > 0) {
            if (regs != kRegs) {
                return product_columns<kRegs - 1>(regs, p, start, out);
            }
            for_row_tiles(p.rows, max_rows(kRegs), [&](int first, int rows) {
                Product part = p;
                part.a += first * p.a_row;
                tile_of<kRegs>(rows, part, start != nullptr ? start + first : nullptr,
                               out + std::ptrdiff_t{first} * kPanel);
            });
        }
    }

    static int registers(int columns) {
        const int regs = (columns + V::kLanes - 1) / V::kLanes;
        return regs < kMaxRegs ? regs : kMaxRegs;
    }

    static void product(const Product& p, const float* start, float* out) {
        for (int j = 0; j < p.columns; j += kMaxColumns) {
            Product part = p;
            part.b += j;
            product_columns(registers(p.columns - j), part, start, out + j);
        }
    }

    // ---- products that are gradients ----

    template <int kRows, int kRegs>
    static void update_tile(const Product& p, const UpdateRule& rule, const ParameterRows& at) {
        Reg sums[kRows][kRegs];
#pragma GCC unroll 16
        for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
            for (int r = 0; r < kRegs; ++r) {
                sums[i][r] = V::set(0.0f);
            }
        }
        const float* b = p.b;
        const float* panel = p.a;
        for (int k0 = 0; k0 < p.depth; k0 += kPanel, panel += p.a_panel) {
            const float* a = panel;
            const int depth = p.depth - k0 < kPanel ? p.depth - k0 : kPanel;
            for (int k = 0; k < depth; ++k) {
                multiply(sums, a, p.a_row, b);
                a += p.a_step;
                b += p.b_stride;
            }
        }
        alignas(64) float grads[kRows][kMaxColumns];
#pragma GCC unroll 16
        for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
            for (int r = 0; r < kRegs; ++r) {
                V::store(grads[i] + r * V::kLanes, sums[i][r]);
            }
        }
        for (int i = 0; i < kRows; ++i) {
            RowKernels<V>::update(rule, p.columns, grads[i], at.offset_by(i * at.stride));
        }
    }

    template <int kRegs, int kRows = max_rows(kRegs)>
    static void update_tile_of(int rows, const Product& p, const UpdateRule& rule, const ParameterRows& at) {
        if constexpr (kRows > 0) {
            return rows == kRows ? update_tile<kRows, kRegs>(p, rule, at)
                                 : update_tile_of<kRegs, kRows - 1>(rows, p, rule, at);
        }
    }

    template <int kRegs = kMaxRegs>
    static void update_columns(int regs, const Product& p, const UpdateRule& rule, const ParameterRows& at) {
        if constexpr (kRegs > 0) {
            if (regs != kRegs) {
                return update_columns<kRegs - 1>(regs, p, rule, at);
            }
            for_row_tiles(p.rows, max_rows(kRegs), [&](int first, int rows) {
                Product part = p;
                part.a += first * p.a_row;
                update_tile_of<kRegs>(rows, part, rule, at.offset_by(first * at.stride));
            });
        }
    }

    static void product_update(const Product& p, const UpdateRule& rule, const ParameterRows& at) {
        for (int j = 0; j < p.columns; j += kMaxColumns) {
            Product part = p;
            part.b += j;
            part.columns = p.columns - j < kMaxColumns ? p.columns - j : kMaxColumns;
            update_columns(registers(part.columns), part, rule, at.offset_by(j));
        }
    }

    // ---- transposition, a square of kLanes x kLanes at a time ----

    // Calls load(r) for the rows of a square and writes its first `width` columns.
    template <typename Load>
    [[gnu::always_inline]] static void transpose_square(int width, float* to, const Load& load) {
        Reg square[V::kLanes];
#pragma GCC unroll 16
        for (int r = 0; r < V::kLanes; ++r) {
            square[r] = load(r);
        }
        V::transpose(square);
#pragma GCC unroll 16
        for (int c = 0; c < V::kLanes; ++c) {
            if (c < width) {
                V::store(to + std::ptrdiff_t{c} * kPanel, square[c]);
            }
        }
    }

    static void transpose(const float* from, std::ptrdiff_t stride, int rows, int columns, float* to) {
        for (int i = 0; i < rows; i += V::kLanes) {
            for (int j = 0; j < columns; j += V::kLanes) {
                const float* corner = from + i * stride + j;
                float* out = to + std::ptrdiff_t{j} * kPanel + i;
                const int width = columns - j;
                if (rows - i >= V::kLanes && width >= V::kLanes) {
                    transpose_square(V::kLanes, out, [&](int r) { return V::load(corner + r * stride); });
                } else {
                    const int part = width < V::kLanes ? width : V::kLanes;
                    transpose_square(part, out, [&](int r) {
                        return r < rows - i ? V::load_part(corner + r * stride, part) : V::set(0.0f);
                    });
                }
            }
        }
        // With eight lanes, half a group may remain.
        for (int i = (rows + V::kLanes - 1) / V::kLanes * V::kLanes; i % kGroup != 0; i += V::kLanes) {
            for (int j = 0; j < columns; ++j) {
                V::store(to + std::ptrdiff_t{j} * kPanel + i, V::set(0.0f));
            }
        }
    }
};

template <typename V>
constexpr FusedKernels fused_kernels_of(const char* name) {
    return {.name = name,
            .product = TileKernels<V>::product,
            .product_update = TileKernels<V>::product_update,
            .update = RowKernels<V>::update,
            .transpose = TileKernels<V>::transpose,
            .activate = RowKernels<V>::activate,
            .multiply_by_derivative = RowKernels<V>::multiply_by_derivative,
            .sample_sums = RowKernels<V>::sample_sums,
            .softmax = RowKernels<V>::softmax};
}

}  // namespace stoker
