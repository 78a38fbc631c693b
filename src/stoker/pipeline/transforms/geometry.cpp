// The box and the part are kept in coordinates of the unflipped image.
#include "stoker/pipeline/transforms/geometry.h"

namespace stoker {

Geometry::Geometry(ImageSize image)
    : box_{0, 0, image.height, image.width}, full_(image), part_{0, 0, image.height, image.width} {}

bool Geometry::crop(const Box& box) {
    if (box.top < 0 || box.left < 0 || box.height > part_.height - box.top || box.width > part_.width - box.left) {
        return false;
    }
    const int left = flip_ ? part_.width - box.width - box.left : box.left;
    part_ = {part_.top + box.top, part_.left + left, box.height, box.width};
    if (!resized_) {
        box_ = {box_.top + part_.top, box_.left + part_.left, box.height, box.width};
        full_ = size();
        part_ = {0, 0, box.height, box.width};
    }
    return true;
}

bool Geometry::resize(ImageSize size, Interpolation interpolation) {
    if (size == this->size()) {
        return true;
    }
    if (!can_resize()) {
        return false;
    }
    resized_ = true;
    interpolation_ = interpolation;
    full_ = size;
    part_ = {0, 0, size.height, size.width};
    return true;
}

Box Geometry::reads() const {
    const Box inner = resize_reads(resizing());
    return {box_.top + inner.top, box_.left + inner.left, inner.height, inner.width};
}

int Geometry::shrink() const {
    for (const int shrink : {8, 4, 2}) {
        if (resized_ && box_.height / shrink >= full_.height && box_.width / shrink >= full_.width) {
            return shrink;
        }
    }
    return 1;
}

Geometry Geometry::shrunk(int shrink) const {
    Geometry smaller = *this;
    smaller.box_ = shrunk_box(box_, shrink);
    return smaller;
}

}  // namespace stoker
