//! What the program touches: the model and the device, whatever a file says.

mod common;

use std::fs;
use std::process::Command;

use common::gguf_builder::{F32, GgufBuilder, Val};
use common::mounted::*;

#[test]
fn no_name_in_a_file_makes_the_program_open_another_path() {
    let hostile = ["../../etc/passwd", "/etc/passwd", "..", ".", "", "a/../../b", "~root", "\0"];
    let builder = hostile.iter().fold(GgufBuilder::new(), |builder, name| {
        builder.key(name, "v").tensor(name, F32, &[1], &[0; 4])
    });
    // A split model names the other files by its own file's name alone.
    let builder = builder.key("split.no", Val::U16(0)).key("split.count", Val::U16(1));
    let place = Place::new(&builder.build());
    let trace = place.dir.join("trace");
    if Command::new("strace").arg("-V").output().is_err() {
        eprintln!("LEFT OUT: which files are opened, since strace is not installed");
        return;
    }
    let mut command = Command::new("strace");
    command.args(["-f", "-e", "trace=open,openat,openat2,creat", "-o"]);
    command.arg(&trace).arg(PROGRAM).arg("-f").arg(&place.model).arg(&place.point);
    let mut daemon = place.foreground_of(command);
    let before = fs::read_to_string(&trace).unwrap();
    for folder in ["metadata", "tensors"] {
        for entry in fs::read_dir(place.path(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                assert_eq!(fs::read(path.join("f32")).unwrap(), [0; 4]);
            } else if !path.ends_with("split.no") && !path.ends_with("split.count") {
                assert_eq!(fs::read(&path).unwrap(), b"v\n");
            }
        }
    }
    // While it is read, it opens nothing but the device, by a thread that comes late.
    let after = fs::read_to_string(&trace).unwrap();
    let mut opened = after.strip_prefix(&before).unwrap().lines();
    assert_eq!(opened.find(|line| !line.contains("\"/dev/fuse\"")), None);
    assert!(!after.contains("passwd"));
    place.umount();
    daemon.wait();
}
