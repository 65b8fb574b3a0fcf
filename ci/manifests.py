"""Says what is wrong with a Kubernetes manifest of ci/jobs, one line per problem, and nothing when all is well.

    manifests.py NAME FILE VERSION...     NAME is job.yaml or mpijob.yaml; VERSION a Kubernetes version whose schemas to use

Two kinds of problem: what the published schemas refuse (unknown fields included), and what every schema accepts but would not run, such as
a world of 5 ranks on 4 pods. Runs offline; needs the package kubernetes-validate.
"""

import sys

import jsonschema
import kubernetes_validate
import yaml

COUNT = {"type": "integer", "minimum": 0}


def fields(required=(), **properties):
    """An object with these fields and no others."""
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


REPLICA = fields(
    ["template"],
    replicas=COUNT,
    restartPolicy={"enum": ["Never", "OnFailure"]},
    template={"type": "object"},
)
# The fields of kubeflow.org/v2beta1 as its API documents them; no package bundles a schema of it. Pod templates are checked by the schemas
# of Kubernetes itself.
MPIJOB = fields(
    ["apiVersion", "kind", "metadata", "spec"],
    apiVersion={"const": "kubeflow.org/v2beta1"},
    kind={"const": "MPIJob"},
    metadata={"type": "object", "required": ["name"]},
    spec=fields(
        ["mpiReplicaSpecs"],
        slotsPerWorker={"type": "integer", "minimum": 1},
        runLauncherAsWorker={"type": "boolean"},
        sshAuthMountPath={"type": "string"},
        launcherCreationPolicy={"enum": ["AtStartup", "WaitForWorkersReady"]},
        mpiImplementation={"enum": ["OpenMPI", "Intel", "MPICH"]},
        runPolicy=fields(
            cleanPodPolicy={"enum": ["None", "Running", "All"]},
            ttlSecondsAfterFinished=COUNT,
            activeDeadlineSeconds={"type": "integer", "minimum": 1},
            backoffLimit=COUNT,
            schedulingPolicy={"type": "object"},
            suspend={"type": "boolean"},
            managedBy={"type": "string"},
        ),
        mpiReplicaSpecs=fields(["Launcher", "Worker"], Launcher=REPLICA, Worker=REPLICA),
    ),
)


def place(error):
    """Where in the document a schema's complaint belongs."""
    return ".".join(str(step) for step in error.absolute_path) or "top level"


def refused_by_kubernetes(document, versions):
    """What the bundled schemas say, per version."""
    for version in versions:
        try:
            kubernetes_validate.validate(document, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            yield f"Kubernetes {version}, {document['kind']}: {place(error)}: {error.message[:200]}"
        except (kubernetes_validate.SchemaNotFoundError, kubernetes_validate.VersionNotSupportedError) as error:
            yield f"Kubernetes {version}: {error.message}"


def environment(container):
    """A container's variables by name."""
    return {variable["name"]: variable for variable in container.get("env", [])}


def job_problems(documents, versions):
    """job.yaml: a headless Service and an indexed Job that agree with each other."""
    problems = [line for document in documents for line in refused_by_kubernetes(document, versions)]
    if problems:
        return problems
    kinds = {document["kind"]: document for document in documents}
    if sorted(kinds) != ["Job", "Service"] or len(documents) != 2:
        return [f"expected one Service and one Job, found {[document['kind'] for document in documents]}"]
    service, job = kinds["Service"], kinds["Job"]
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    container = pod["containers"][0]
    variables = environment(container)
    world = spec.get("completions")
    if spec.get("completionMode") != "Indexed":
        problems.append("completionMode is not Indexed: pods would have no rank")
    if spec.get("parallelism") != world:
        problems.append(f"parallelism {spec.get('parallelism')} is not completions {world}: ranks would wait for pods that never start")
    if variables.get("RAILGAUGE_WORLD", {}).get("value") != str(world):
        problems.append(f"RAILGAUGE_WORLD is not completions {world}")
    rank = variables.get("RAILGAUGE_RANK", {}).get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
    if "job-completion-index" not in rank:
        problems.append("RAILGAUGE_RANK is not the completion index")
    if "secretKeyRef" not in variables.get("RAILGAUGE_TOKEN", {}).get("valueFrom", {}):
        problems.append("the token does not come from a Secret")
    name, port = service["metadata"]["name"], service["spec"]["ports"][0]["port"]
    if service["spec"].get("clusterIP") != "None":
        problems.append("the Service is not headless: pods would have no names")
    if pod.get("subdomain") != name:
        problems.append(f"subdomain {pod.get('subdomain')} is not the Service {name}")
    meet = f"{job['metadata']['name']}-0.{name}:{port}"
    if variables.get("RAILGAUGE_RENDEZVOUS", {}).get("value") != meet:
        problems.append(f"RAILGAUGE_RENDEZVOUS is not {meet}")
    labels = spec["template"]["metadata"]["labels"]
    if not service["spec"]["selector"].items() <= labels.items():
        problems.append("the Service does not select the Job's pods")
    if pod.get("restartPolicy") != "Never" or spec.get("backoffLimitPerIndex") != 0:
        problems.append("a verdict would be retried: restartPolicy is to be Never and backoffLimitPerIndex 0")
    names = [each["name"] for each in pod["containers"]]
    for rule in spec.get("podFailurePolicy", {}).get("rules", []):
        watched = rule.get("onExitCodes", {}).get("containerName", names[0])
        if watched not in names:
            problems.append(f"podFailurePolicy watches {watched}, which is no container of the pod")
    return problems


def mpijob_problems(documents, versions):
    """mpijob.yaml: one MPIJob whose mpirun starts as many ranks as there are slots."""
    if len(documents) != 1:
        return [f"expected one MPIJob, found {len(documents)} documents"]
    job = documents[0]
    problems = [f"{place(error)}: {error.message[:200]}" for error in jsonschema.Draft202012Validator(MPIJOB).iter_errors(job)]
    if problems:
        return problems
    spec = job["spec"]
    for role, replica in spec["mpiReplicaSpecs"].items():
        template = {
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": {"name": role.lower()},
            "template": replica["template"],
        }
        problems += [f"{role}: {line}" for line in refused_by_kubernetes(template, versions)]
    if problems:
        return problems
    launcher, workers = spec["mpiReplicaSpecs"]["Launcher"], spec["mpiReplicaSpecs"]["Worker"]
    arguments = launcher["template"]["spec"]["containers"][0]["args"]
    slots = workers["replicas"] * spec.get("slotsPerWorker", 1)
    if arguments[arguments.index("-np") + 1] != str(slots):
        problems.append(f"mpirun's -np is not {slots}, the slots of all workers")
    if "orte_abort_on_non_zero_status" in arguments:
        problems.append("orte_abort_on_non_zero_status makes mpirun end with 0 whatever rank 0 ends with")
    if spec.get("runPolicy", {}).get("backoffLimit") != 0 or launcher.get("restartPolicy") != "Never":
        problems.append("a verdict would be retried: backoffLimit is to be 0 and the launcher's restartPolicy Never")
    return problems


def main():
    name, file, *versions = sys.argv[1:]
    judge = {"job.yaml": job_problems, "mpijob.yaml": mpijob_problems}[name]
    try:
        with open(file, encoding="utf-8") as text:
            documents = [document for document in yaml.safe_load_all(text) if document]
    except yaml.YAMLError as error:
        sys.exit(f"{file}: {error}")
    problems = judge(documents, versions)
    for problem in problems:
        print(f"{file}: {problem}")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
