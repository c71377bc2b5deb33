package signing

// The key management services whose URIs cosign takes: each of these packages
// adds its scheme (awskms, azurekms, gcpkms, hashivault) to the list that
// sigstore's kms.Get looks at. Other schemes are programs on the PATH,
// sigstore-kms-<scheme>.
import (
	_ "github.com/sigstore/sigstore/pkg/signature/kms/aws"
	_ "github.com/sigstore/sigstore/pkg/signature/kms/azure"
	_ "github.com/sigstore/sigstore/pkg/signature/kms/gcp"
	_ "github.com/sigstore/sigstore/pkg/signature/kms/hashivault"
)
