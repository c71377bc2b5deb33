package netrc_test

import (
	"fmt"

	"waybill/internal/netrc"
)

func ExampleParse() {
	logins := netrc.Parse("machine charts.example login me password secret")
	login, found := netrc.Find(logins, "charts.example")
	fmt.Println(login.User, found)
	// Output: me true
}
