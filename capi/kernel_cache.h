// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Compiled kernels on disk: content-addressed, so that nothing in it can be stale.
#pragma once

#include "compiler/Target/Target.h"

#include <filesystem>
#include <optional>
#include <string>

namespace tilery::capi {

/// Identity of this build of the compiler: part of each key.
std::string buildId();

/// Hash of everything that determines the code.
std::string cacheKey(const std::string &irText, const Target &target);

/// The object and what the launcher must know, or nullopt. A damaged entry counts as absent.
std::optional<CompiledCode> loadCached(const std::string &key);
/// Written to a temporary name and renamed: safe for many ranks at once. A cache that cannot be
/// written is one warning, not an error.
void storeCached(const std::string &key, const CompiledCode &code);

std::filesystem::path cacheDirectory();
/// Whether a directory is this user's, who alone can write it: only what is in such a one is used.
bool isPrivate(const std::filesystem::path &directory);
/// Makes the cache's directory when it is not there. False, with one warning, when it cannot be used.
bool prepareDirectory();
/// In one step, so that readers see the old text or the new one.
bool replaceFile(const std::filesystem::path &path, const std::string &text);

} // namespace tilery::capi
