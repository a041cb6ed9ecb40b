package canonical

import "encoding/hex"

// Digest identifies a call or an outcome: the first 16 bytes of the SHA-256 of its canonical encoding. Digests are
// stable across processes and machines for one version of the identity rules, see [IdentityVersion].
type Digest [16]byte

// IdentityVersion is the version of the identity rules. It is raised by every change that gives some call or outcome another
// digest than before, so that whoever keeps digests can tell that they are not to be compared with new ones.
const IdentityVersion = 1

// String returns the digest as "sha256:" and 32 hexadecimal digits.
func (d Digest) String() string { return "sha256:" + hex.EncodeToString(d[:]) }

// MarshalText makes a digest in JSON what String returns.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// IsZero reports whether d is the zero value, which is no digest of anything.
func (d Digest) IsZero() bool { return d == Digest{} }
