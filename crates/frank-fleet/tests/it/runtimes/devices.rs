//! Devices of an endpoint.

use frank_fleet::{Device, EnvValue};
use serde_json::json;

use super::{Case, case};

fn devices(case: &Case) -> Vec<String> {
    let text = |device| match device {
        Device::Node(path) => path,
        Device::Cdi(name) => name,
    };
    case.workload().devices.into_iter().map(text).collect()
}

fn env(case: &Case) -> Vec<String> {
    let line = |env: frank_fleet::Env| match env.value {
        EnvValue::Plain(value) => format!("{}={value}", env.name),
        EnvValue::Secret(_) => panic!("a secret"),
    };
    case.workload().env.into_iter().map(line).collect()
}

const TWO_CUDA: [(&str, &str); 2] = [("cuda:0", "sm_86"), ("cuda:1", "sm_86")];

#[test]
fn a_container_gets_nvidia_devices_by_the_toolkits_interface() {
    let all = case("llama.cpp").on(&TWO_CUDA).in_image();
    assert_eq!(devices(&all), ["nvidia.com/gpu=all"]);
    let one = all.with("devices", json!(["cuda:1"]));
    assert_eq!(devices(&one), ["nvidia.com/gpu=1"]);
    assert_eq!(env(&one), Vec::<String>::new());
    assert_eq!(one.value("--device").as_deref(), Some("CUDA0"), "it sees one, which is its first");
}

#[test]
fn without_a_toolkit_a_container_gets_nodes_and_libraries_one_by_one() {
    let mut case = case("llama.cpp").on(&TWO_CUDA).in_image();
    case.host.gpu_libraries = Some(
        ["/usr/lib64/libcuda.so.1", "/usr/lib64/libnvidia-ml.so.1"].map(str::to_owned).to_vec(),
    );
    let nodes = ["/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl"];
    assert_eq!(devices(&case), nodes);
    let mounts = case.workload().mounts;
    let libraries: Vec<&str> = mounts[1..].iter().map(|mount| mount.source.as_str()).collect();
    assert_eq!(libraries, ["/usr/lib64/libcuda.so.1", "/usr/lib64/libnvidia-ml.so.1"]);
    assert!(mounts.iter().all(|mount| mount.read_only));
    insta::assert_debug_snapshot!("gpu_one_by_one", case.workload());
}

#[test]
fn a_program_sees_the_devices_that_its_endpoint_names_and_no_others() {
    let case = case("llama.cpp").on(&TWO_CUDA).with("devices", json!(["cuda:1"]));
    assert_eq!(env(&case), ["CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=1"]);
    assert_eq!(case.value("--device").as_deref(), Some("CUDA0"));
    let mixed = case.with("devices", json!(["rocm:2", "cuda:1", "rocm:0"])).on(&[
        ("cuda:1", "sm_86"),
        ("rocm:0", "gfx1201"),
        ("rocm:2", "gfx1151"),
    ]);
    assert_eq!(
        mixed.value("--device").as_deref(),
        Some("ROCm1,CUDA0,ROCm0"),
        "in the endpoint's order"
    );
    assert!(env(&mixed).contains(&"ROCR_VISIBLE_DEVICES=0,2".to_owned()));
    assert_eq!(mixed.option("device", "ROCm0").value("--device").as_deref(), Some("ROCm0"));
}

#[test]
fn devices_of_amd_are_nodes() {
    let case = case("vllm").on(&[("rocm:0", "gfx1201")]).in_image();
    assert_eq!(devices(&case), ["/dev/dri", "/dev/kfd"]);
    assert_eq!(env(&case), Vec::<String>::new());
}

#[test]
fn a_variable_of_the_endpoint_stands_before_one_of_the_runtime() {
    let case = case("llama.cpp").on(&TWO_CUDA).with("devices", json!(["cuda:1"]));
    let own = case.with("env", json!({"CUDA_VISIBLE_DEVICES": "0"}));
    assert!(env(&own).contains(&"CUDA_VISIBLE_DEVICES=0".to_owned()));
}

#[test]
fn a_device_that_the_host_lacks_is_named() {
    let case = case("llama.cpp").on(&TWO_CUDA).with("devices", json!(["cuda:2"]));
    let expected = "error unknown_device endpoints.chat.devices: box has no device `cuda:2` (it has cuda:0, cuda:1)";
    assert_eq!(case.said(), [expected]);
    assert_eq!(case.with("devices", json!(["gpu"])).errors(), ["bad_value"]);
}
