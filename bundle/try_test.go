package bundle

import ("testing";"fmt")
func TestTry(t *testing.T){
 for _, k := range []string{"release","policy"} { b,err:=Schema(k); fmt.Println(string(b),err) }
 for _, s := range []string{"", "# x\n", "a: [", "a: b: c\n", "apiVersion: waybill/v1\nkind: Release\nname: Foo\nversion: 1.10\nstges: [a]\ncomponents:\n- name: a\n  chart: {path: x, git: y}\n  namespace: 5\n  values:\n  crds: updrade\n  timeout: 10\n  images: [5, {rf: x}, ok]\n- <<: &b {nam: x}\n  chart: {pth: x}\n", "a: 1\nyes: 2\ntrue: 3\n\"true\": 4\n", "a: &a [*a]\n", "a: 1\n---\nb: 2\n", "a: *x\n", "- a\n", "a:\n\tb: c\n"} {
  _, err := ParseRelease("release.yaml", []byte(s)); fmt.Println(err); fmt.Println("--")
 }
}
