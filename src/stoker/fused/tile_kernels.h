// Products in register tiles, for the vector sets: V::kTileRows x V::kTileRegs registers of sums, one row of `b` and
// one broadcast of `a` at a time. An update's arithmetic, mostly divisions, hides between the next tile's multiplies.
#pragma once

#include "stoker/fused/row_kernels.h"

namespace stoker {

template <typename V>
struct TileKernels {
    using Reg = typename V::Reg;
    static constexpr int kMaxRows = V::kTileRows;
    static constexpr int kMaxRegs = V::kTileRegs;
    static constexpr int kMaxColumns = kMaxRegs * V::kLanes;

    template <int kRows, int kRegs>
    static void multiply(Reg (&sums)[kRows][kRegs], const float* a, std::ptrdiff_t a_row, const float* b) {
        Reg row[kRegs];
#pragma GCC unroll 8
        for (int r = 0; r < kRegs; ++r) {
            row[r] = V::load(b + r * V::kLanes);
        }
#pragma GCC unroll 8
        for (int i = 0; i < kRows; ++i) {
            const Reg factor = V::set(a[i * a_row]);
#pragma GCC unroll 8
            for (int r = 0; r < kRegs; ++r) {
                sums[i][r] = V::fma(factor, row[r], sums[i][r]);
            }
        }
    }

    // ---- sums that go on in memory ----

    template <int kRows, int kRegs>
    static void tile(const Product& p, const float* start, float* out) {
        Reg sums[kRows][kRegs];
#pragma GCC unroll 8
        for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
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
#pragma GCC unroll 8
        for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
            for (int r = 0; r < kRegs; ++r) {
                V::store(out + i * kPanel + r * V::kLanes, sums[i][r]);
            }
        }
    }

    template <int kRegs, int kRows = kMaxRows>
    static void tile_of(int rows, const Product& p, const float* start, float* out) {
        if constexpr (kRows > 0) {
            return rows == kRows ? tile<kRows, kRegs>(p, start, out) : tile_of<kRegs, kRows - 1>(rows, p, start, out);
        }
    }

    // Calls body(first row, rows) for rows in tiles of nearly the same height.
    template <typename Body>
    static void for_row_tiles(int rows, const Body& body) {
        const int tiles = (rows + kMaxRows - 1) / kMaxRows;
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
            for_row_tiles(p.rows, [&](int first, int rows) {
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

    // ---- sums that are gradients ----

    // A finished tile of gradients whose update is under way, one register at a time.
    template <UpdateRule::Kind kKind>
    struct Pending {
        alignas(64) float grads[kMaxRows][kMaxColumns];
        const UpdateRule* rule;
        Updated at;
        int columns = 0;
        int rows = 0;
        int row = 0;
        int column = 0;

        bool any() const { return row < rows; }
        void one() {
            const std::ptrdiff_t place = row * at.stride + column;
            const int part = columns - column < V::kLanes ? columns - column : V::kLanes;
            RowKernels<V>::template update_register<kKind>(*rule, V::load(grads[row] + column), at.weight + place,
                                                           at.first + place, at.second + place, part);
            column += V::kLanes;
            if (column >= columns) {
                column = 0;
                ++row;
            }
        }
    };

    template <UpdateRule::Kind kKind, int kRows, int kRegs>
    static void update_tile(const Product& p, const Updated& at, Pending<kKind>& pending) {
        Reg sums[kRows][kRegs];
#pragma GCC unroll 8
        for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
            for (int r = 0; r < kRegs; ++r) {
                sums[i][r] = V::set(0.0f);
            }
        }
        const float* b = p.b;
        const float* panel = p.a;
        for (int k0 = 0; k0 < p.depth; k0 += kPanel, panel += p.a_panel) {
            const int depth = p.depth - k0 < kPanel ? p.depth - k0 : kPanel;
            const float* a = panel;
            int k = 0;
            for (; k + 1 < depth && pending.any(); k += 2) {
                multiply(sums, a, p.a_row, b);
                multiply(sums, a + p.a_step, p.a_row, b + p.b_stride);
                pending.one();
                a += 2 * p.a_step;
                b += 2 * p.b_stride;
            }
            for (; k < depth; ++k) {
                multiply(sums, a, p.a_row, b);
                a += p.a_step;
                b += p.b_stride;
            }
        }
        while (pending.any()) {
            pending.one();
        }
#pragma GCC unroll 8
        for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
            for (int r = 0; r < kRegs; ++r) {
                V::store(pending.grads[i] + r * V::kLanes, sums[i][r]);
            }
        }
        pending.at = at;
        pending.columns = p.columns;
        pending.rows = kRows;
        pending.row = 0;
    }

    template <UpdateRule::Kind kKind, int kRegs, int kRows = kMaxRows>
    static void update_tile_of(int rows, const Product& p, const Updated& at, Pending<kKind>& pending) {
        if constexpr (kRows > 0) {
            return rows == kRows ? update_tile<kKind, kRows, kRegs>(p, at, pending)
                                 : update_tile_of<kKind, kRegs, kRows - 1>(rows, p, at, pending);
        }
    }

    template <UpdateRule::Kind kKind, int kRegs = kMaxRegs>
    static void update_columns(int regs, const Product& p, const Updated& at, Pending<kKind>& pending) {
        if constexpr (kRegs > 0) {
            if (regs != kRegs) {
                return update_columns<kKind, kRegs - 1>(regs, p, at, pending);
            }
            for_row_tiles(p.rows, [&](int first, int rows) {
                Product part = p;
                part.a += first * p.a_row;
                const std::ptrdiff_t down = first * at.stride;
                update_tile_of<kKind, kRegs>(rows, part,
                                             {.weight = at.weight + down,
                                              .first = at.first + down,
                                              .second = at.second + down,
                                              .stride = at.stride},
                                             pending);
            });
        }
    }

    template <UpdateRule::Kind kKind>
    static void product_update_kind(const Product& p, const UpdateRule& rule, const Updated& at) {
        Pending<kKind> pending;
        pending.rule = &rule;
        for (int j = 0; j < p.columns; j += kMaxColumns) {
            Product part = p;
            part.b += j;
            part.columns = p.columns - j < kMaxColumns ? p.columns - j : kMaxColumns;
            update_columns<kKind>(
                registers(part.columns), part,
                {.weight = at.weight + j, .first = at.first + j, .second = at.second + j, .stride = at.stride},
                pending);
        }
        while (pending.any()) {
            pending.one();
        }
    }

    static void product_update(const Product& p, const UpdateRule& rule, const Updated& at) {
        switch (rule.kind) {
            case UpdateRule::Kind::sgd:
                return product_update_kind<UpdateRule::Kind::sgd>(p, rule,
                                                                  {at.weight, at.weight, at.weight, at.stride});
            case UpdateRule::Kind::momentum:
                return product_update_kind<UpdateRule::Kind::momentum>(p, rule,
                                                                       {at.weight, at.first, at.weight, at.stride});
            case UpdateRule::Kind::adam:
                return product_update_kind<UpdateRule::Kind::adam>(p, rule, at);
        }
    }

    // ---- transposition, a square of kLanes x kLanes at a time ----

    static void transpose(const float* from, std::ptrdiff_t stride, int rows, int columns, float* to) {
        for (int i = 0; i < rows; i += V::kLanes) {
            const int height = rows - i < V::kLanes ? rows - i : V::kLanes;
            for (int j = 0; j < columns; j += V::kLanes) {
                const int width = columns - j < V::kLanes ? columns - j : V::kLanes;
                Reg square[V::kLanes];
                for (int r = 0; r < V::kLanes; ++r) {
                    const float* row = from + (i + r) * stride + j;
                    square[r] = r >= height         ? V::set(0.0f)
                                : width < V::kLanes ? V::load_part(row, width)
                                                    : V::load(row);
                }
                V::transpose(square);
                for (int c = 0; c < width; ++c) {
                    V::store(to + std::ptrdiff_t{j + c} * kPanel + i, square[c]);
                }
            }
        }
        // Eight lanes may leave half a group.
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
            .times_slope = RowKernels<V>::times_slope,
            .sample_sums = RowKernels<V>::sample_sums,
            .softmax = RowKernels<V>::softmax};
}

}  // namespace stoker
