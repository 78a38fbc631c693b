// The ops of a transform on float32 planes. Ops that are defined for bytes alone are refused.
#pragma once

#include <string>

#include "stoker/base/planes.h"
#include "stoker/base/rng.h"
#include "stoker/formats/dataset.h"
#include "stoker/pipeline/transforms/pixel_ops.h"

namespace stoker {

// Why the op cannot run on planes: "is defined for bytes"; empty: it can.
std::string why_not_on_planes(const PixelOp& op);

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
