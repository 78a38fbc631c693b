// The choice of the image field and the label field: by the usual names, by the user's names, and with splits.
#include "stoker/formats/fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "stoker/base/error.h"

namespace stoker {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Names = std::vector<std::string>;

// "image label", with "-" for none.
std::string found(const Names& present, const FieldNames& wanted = {}, Split split = Split::train) {
    const FoundFields fields = find_fields(present, wanted, split, "d.npz");
    return fields.image + " " + fields.label.value_or("-");
}

std::string error_of(const Names& present, const FieldNames& wanted = {}, Split split = Split::train) {
    try {
        return found(present, wanted, split);
    } catch (const DataError& error) {
        return error.what();
    }
}

TEST(Fields, UsualNamesInOrderOfPreference) {
    EXPECT_EQ(found({"y", "x"}), "x y");
    EXPECT_EQ(found({"labels", "images"}), "images labels");
    EXPECT_EQ(found({"image", "label"}), "image label");
    EXPECT_EQ(found({"data", "targets"}), "data targets");
    EXPECT_EQ(found({"data", "x", "image", "images", "targets", "y", "label", "labels"}), "images labels");
    EXPECT_EQ(found({"data", "x", "image", "targets", "y", "label"}), "image label");
    EXPECT_EQ(found({"data", "x", "targets", "y", "meta"}), "x y");
    EXPECT_EQ(found({"images"}), "images -");
}

TEST(Fields, ASingleFieldIsTheImage) {
    EXPECT_EQ(found({"pixels"}), "pixels -");
    EXPECT_EQ(found({"labels", "pixels"}), "pixels labels");
    EXPECT_EQ(found({"pixels", "digits"}, {.image = "", .label = "digits"}), "pixels digits");
    EXPECT_THAT(error_of({"pixels", "digits"}),
                AllOf(HasSubstr("images, image, img, x, data"), HasSubstr("pixels, digits"), HasSubstr("data.fields.image"),
                      HasSubstr("d.npz"), Not(HasSubstr("\n"))));
    EXPECT_THAT(error_of({}), HasSubstr("no fields"));
    EXPECT_THAT(error_of({"labels"}), HasSubstr("got labels"));
    const Names many(30, "field");
    EXPECT_THAT(error_of(many), HasSubstr("field, ..."));
}

TEST(Fields, WantedNames) {
    EXPECT_EQ(found({"images", "labels", "depth", "coarse"}, {.image = "depth", .label = "coarse"}), "depth coarse");
    EXPECT_EQ(found({"images", "labels", "depth"}, {.image = "depth", .label = ""}), "depth labels");
    EXPECT_EQ(found({"images", "labels", "coarse"}, {.image = "", .label = "coarse"}), "images coarse");
    EXPECT_THAT(error_of({"images", "labels"}, {.image = "depth", .label = ""}),
                HasSubstr("a field named depth, got images, labels"));
    EXPECT_THAT(error_of({"images", "labels"}, {.image = "", .label = "fine"}), HasSubstr("a field named fine"));
}

// A field that the user names as the label is never chosen as the image, and the other way round.
TEST(Fields, OneFieldIsNotBoth) {
    EXPECT_EQ(found({"x", "pixels"}, {.image = "", .label = "x"}), "pixels x");
    EXPECT_EQ(found({"image", "x"}, {.image = "", .label = "x"}), "image x");
    EXPECT_EQ(found({"labels", "other"}, {.image = "labels", .label = ""}), "labels -");
    EXPECT_EQ(found({"labels", "y"}, {.image = "labels", .label = ""}), "labels y");
}

TEST(Fields, Splits) {
    const Names keras = {"x_train", "y_train", "x_test", "y_test"};
    EXPECT_EQ(found(keras), "x_train y_train");
    EXPECT_EQ(found(keras, {}, Split::test), "x_test y_test");
    EXPECT_TRUE(fields_have_splits(keras));
    const Names medmnist = {"train_images", "val_images", "test_images", "train_labels", "val_labels", "test_labels"};
    EXPECT_EQ(found(medmnist), "train_images train_labels");
    EXPECT_EQ(found(medmnist, {}, Split::test), "test_images test_labels");
    EXPECT_TRUE(fields_have_splits(medmnist));
    const Names val = {"train_image", "val_image", "train_label", "val_label"};
    EXPECT_EQ(found(val, {}, Split::test), "val_image val_label");
    EXPECT_TRUE(fields_have_splits(val));
    EXPECT_EQ(found({"x_train", "x_test"}, {}, Split::test), "x_test -");
}

TEST(Fields, WithoutSplits) {
    EXPECT_FALSE(fields_have_splits(Names{"images", "labels"}));
    EXPECT_FALSE(fields_have_splits(Names{"x_train", "y_train"}));
    EXPECT_FALSE(fields_have_splits(Names{"x_test", "y_test"}));
    EXPECT_FALSE(fields_have_splits(Names{"y_train", "y_test"}));
    EXPECT_FALSE(fields_have_splits(Names{}));
    EXPECT_EQ(found({"images", "labels"}, {}, Split::test), "images labels");
    EXPECT_THAT(error_of({"x_train", "y_train"}, {}, Split::test), HasSubstr("got x_train, y_train"));
}

}  // namespace
}  // namespace stoker
