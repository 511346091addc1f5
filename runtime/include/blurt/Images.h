//===- Images.h - Labelled images from IDX files ----------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// IDX is the format of MNIST and its like: two zero bytes, one for the type of
// the elements (8: bytes), one for the number of dims, the dims as big-endian
// uint32, then the elements in row-major order. Here elements are bytes; a file
// may be compressed by gzip.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_IMAGES_H
#define BLURT_IMAGES_H

#include "blurt/File.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace blurt {

/// One file of bytes.
class IdxFile {
public:
  /// Throws Error (bad input), naming the file, if it is no IDX file of bytes
  /// or its size is not what its dims say.
  explicit IdxFile(const std::string &path);

  const std::string &path() const { return name; }
  const std::vector<uint64_t> &dims() const { return shape; }
  const uint8_t *data() const { return elements; }
  uint64_t size() const { return count; }

private:
  void readCompressed();

  std::string name;
  std::optional<MappedFile> file;
  std::vector<uint8_t> inflated; ///< the elements, if they were compressed
  std::vector<uint64_t> shape;
  const uint8_t *elements = nullptr;
  uint64_t count = 0;
};

/// Images and a label for each.
class ImageSet {
public:
  /// `labels` may be empty: then its name is that of the images with
  /// `images-idx3` replaced by `labels-idx1`. `flag` and `labelsFlag` are the
  /// options at fault in errors. Throws Error (bad input) unless there are as
  /// many labels as images, images have `elements` bytes, and labels are below
  /// `classes`.
  ImageSet(const std::string &flag, const std::string &images,
           const std::string &labelsFlag, const std::string &labels,
           uint64_t elements, uint64_t classes);

  uint64_t size() const { return images.dims()[0]; }
  /// Hex digits that tell other data from this.
  std::string digest() const;
  /// Bytes of image `index`.
  const uint8_t *image(uint64_t index) const {
    return images.data() + index * elements;
  }
  int32_t label(uint64_t index) const { return labels.data()[index]; }

private:
  uint64_t elements;
  IdxFile images, labels;
};

} // namespace blurt

#endif // BLURT_IMAGES_H
