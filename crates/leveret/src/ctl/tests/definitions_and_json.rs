//! What commands do with definitions, and what they write for machines.

use super::*;

#[test]
fn definitions_with_what_is_not_supported_are_refused_by_the_node_or_taken_without_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("defs.json");
    let shovel = r#"{"parameters":[{"component":"shovel","vhost":"/","name":"s","value":{}}]}"#;
    std::fs::write(&file, shovel).expect("written");
    let file = file.display();
    let refused = [(
        "POST /api/definitions",
        400,
        r#"{"reason":"all that is wrong"}"#,
    )];
    let (code, out, _) = run_on(&refused, &format!("-q|import_definitions|{file}"));
    assert_eq!(
        (code, out.as_str()),
        (code::DATA, "Error: all that is wrong")
    );
    let taken = [("POST /api/definitions", 204, "")];
    let line = format!("-q|import_definitions|{file}|--skip-unsupported");
    let (code, out, asked) = run_on(&taken, &line);
    let left_out = "left out: shovel 's' in vhost '/': there are no shovels\n";
    assert_eq!((code, out.as_str()), (0, left_out));
    assert_eq!(asked, [r#"POST /api/definitions {"parameters":[]}"#]);
}

#[test]
fn the_status_and_the_plugins_have_rabbitmqs_keys_for_machines() {
    let node = r#"[{"name":"a@x","running":true,"being_drained":true,"fd_total":9,"fd_used":3,
                    "run_queue":0,"config_files":["/etc/l.conf"]}]"#;
    let answers = [
        ("GET /api/overview", 200, r#"{"node":"a@x","listeners":[]}"#),
        ("GET /api/nodes", 200, node),
        ("GET /api/nodes/a%40x/memory", 200, r#"{"memory":{}}"#),
    ];
    let json = |line: &str| -> serde_json::Value {
        let (code, out, _) = run_on(&answers, line);
        assert_eq!(code, 0, "{out}");
        serde_json::from_str(&out).expect("JSON")
    };
    let status = json("status|--formatter|json");
    assert_eq!(status["is_under_maintenance"], true);
    assert_eq!(status["file_descriptors"]["total_used"], 3);
    assert_eq!(status["config_files"][0], "/etc/l.conf");
    let has = |name: &str| status["active_plugins"].to_string().contains(name);
    assert!(has("rabbitmq_management"), "{status}");
    let plugins = json("list|rabbitmq_management|--formatter|json");
    let first = &plugins["plugins"][0];
    assert_eq!(first["name"], "rabbitmq_management");
    assert_eq!(
        (&first["running"], &first["enabled"]),
        (&true.into(), &"enabled".into())
    );
}
