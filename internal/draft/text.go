package draft

// Keys that are not used stand behind a "#" in the first column, indented as
// they would be without it; comments for reading have a space behind the "#", or
// stand further right. So all keys can be taken out of their comments at once,
// which the tests do.

const head = `# A release: charts, their versions and their values, installed as one unit.
#
# Keys behind a "#" are not used; each shows an example. Paths are relative to this
# file. "bundle schema release" prints the schema, "bundle lint" finds mistakes.

apiVersion: waybill/v1
kind: Release
name: %s # a DNS label, at most 40 characters
version: %s # semantic, without a leading v; "lock --version" and "build --version" set another

# The platforms that images are packed for; without it all that upstream offers.
platforms: [linux/amd64]

# The Kubernetes versions it is made for; -eks, -gke and the like do not count.
#kubernetes: ">=1.28"

# Images are found by rendering the charts, once per Kubernetes version and with
# these kinds: what a chart leaves out where a kind is not served counts too.
#render:
#  kubeVersions: ["1.30.0", "1.34.0"]
#  apiVersions: [monitoring.coreos.com/v1]

# Stages in their order: the next begins when all of one are ready. With stages
# every component names one.
#stages: [base, apps]

# Each component is one chart, installed as one Helm release.
components:
`

const tail = `
# What else a component may say:
#  - name: database # the name by which all else knows it; also the Helm release's
#    stage: base # one of stages
#    chart: # in a chart repository, or in a registry with oci://HOST/PATH
#      repository: https://charts.example.com
#      name: postgresql
#      version: ~15.2.0 # exact, or a range that the lock pins
#    releaseName: db # the Helm release's name, when it is another one
#    namespace: database
#    createNamespace: true # made before the first component; one true serves all that use it
#    needs: [app] # components of the same stage or an earlier one that must be ready first
#    valuesFiles: [values/database.yaml] # later ones win
#    values: {size: small} # win over valuesFiles; a site's win over both
#    profiles: # further values, of which a site may pick one
#      - name: ha
#        values: {replicas: 3}
#    parameters: # a JSON Schema of what a site may set; all else is locked then
#      schema: {properties: {size: {enum: [small, large]}}}
#    crds: upgrade # the chart's crds folder: upgrade (the default), create or skip
#    timeout: 10m # how long it may take until it is ready
#    images: # more than is found in the chart
#      - ref: registry.example.com/postgres-backup:15.2
#        platforms: [linux/amd64]
#        reason: started by the operator
#    ignoreImages: ["*/debug:*"] # texts that look like images and are none
#  - name: agent
#    chart: # in a git repository
#      git: https://git.example.com/agent.git
#      ref: v1.4.0 # a tag, a branch or a commit; the lock pins the commit
#      path: deploy/chart
#    namespace: database
#  - name: policies
#    chart: # files of Kubernetes objects, packed as a chart
#      manifests: [manifests/policies.yaml]
#    namespace: database

# Images and other OCI artifacts to carry that belong to no one component.
#images: [registry.example.com/tools/debug:1.0]

# How images of several platforms are packed: nested keeps upstream's indexes, flat
# is for registries that refuse an index inside an index.
#shape: nested

# Where the bundle of this file is: "apply install release.yaml" takes it from there.
#artifact: oci://registry.example.com/my-release@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855

# Keys that begin with x- are yours, for example for YAML anchors.
#x-team: platform
`
