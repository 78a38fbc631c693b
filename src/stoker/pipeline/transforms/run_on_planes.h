// The ops of a transform on float32 planes. Those of a program, which take bytes, are refused.
#pragma once

#include "stoker/base/planes.h"
#include "stoker/base/rng.h"
#include "stoker/formats/dataset.h"
#include "stoker/pipeline/transforms/pixel_ops.h"

namespace stoker {

// True for an op that cannot run on planes: a CustomOp, or a group with one.
bool is_for_bytes(const PixelOp& op);

// run_pixel_op on planes, with the same parameters. `copy` holds a copy of the original where the op needs one.
void run_on_planes(const PixelOp& op, PlanesView image, const PlaneValues& values, Rng rng, Planes& copy);

// How the values of raw pixels of this type relate to a model's.
PlaneValues plane_values(DType dtype);

// The part `box` of raw pixels. Throws DataError if the value has another number of bytes than its shape.
void load_pixels(const FieldValue& pixels, const Box& box, PlanesView to);
// Row `y` of RGBA pixels of uint16: to three planes, or to one of grey by luma's weights (ops/grayscale.h).
void load_rgba_row(const std::uint8_t* row, int y, PlanesView to);
// All of an image of bytes.
void load_pixels(ConstImageView pixels, PlanesView to);

}  // namespace stoker
