//! Figures that are sent as they change, over real HTTP on loopback.

use crate::api::{Api, start};
use crate::client::basic;
use crate::fake::user;
use crate::{client, fake};
use leveret_management::Service;
use leveret_types::limits::{
    LIVE_ANSWER_BYTES_MAX, LIVE_CACHED_BYTES_MAX, LIVE_PATHS_MAX, LIVE_STREAMS_EACH_MAX,
};
use rustix::net::sockopt::set_socket_recv_buffer_size;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

/// A client that is sent events.
struct Live {
    answer: BufReader<TcpStream>,
    status: u16,
    head: String,
    text: String,
}

fn target(paths: &[&str]) -> String {
    let encode = |path: &&str| {
        let path = path
            .replace('%', "%25")
            .replace('&', "%26")
            .replace('?', "%3F");
        format!("path={path}")
    };
    let paths: Vec<String> = paths.iter().map(encode).collect();
    format!("/api/leveret/live?{}", paths.join("&"))
}

impl Live {
    fn open(api: &Api, user: &str, paths: &[&str]) -> Self {
        let authorization = basic(user, user);
        let target = target(paths);
        let request = format!(
            "GET {target} HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\nAuthorization: {authorization}\r\n\r\n"
        );
        let mut stream = TcpStream::connect(api.address(Service::Api)).expect("a server");
        let patience = Some(Duration::from_secs(60));
        stream.set_read_timeout(patience).expect("a socket");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let length = answer.read_line(&mut head).expect("a head");
            assert!(length > 0, "the head ends: {head}");
        }
        let status = head.split(' ').nth(1).and_then(|s| s.parse().ok());
        Self {
            answer,
            status: status.unwrap_or(0),
            head: head.to_ascii_lowercase(),
            text: String::new(),
        }
    }

    /// One more chunk of the text; false at its end.
    fn read_on(&mut self) -> bool {
        let mut length = String::new();
        self.answer.read_line(&mut length).expect("a chunk");
        let length = usize::from_str_radix(length.trim(), 16).expect("a chunk's length");
        let mut chunk = vec![0; length + 2];
        self.answer.read_exact(&mut chunk).expect("a whole chunk");
        self.text
            .push_str(std::str::from_utf8(&chunk[..length]).expect("text"));
        length > 0
    }

    /// The next event and its data; none at the end.
    fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let field = |name: &str| {
                    let mut lines = event.lines();
                    let found = lines.find_map(|line| line.strip_prefix(name));
                    found.map(str::to_owned)
                };
                let (name, data) = (field("event: "), field("data: "));
                self.text = rest.to_owned();
                if let Some(name) = name {
                    let data = serde_json::from_str(&data.expect("data")).expect("JSON");
                    return Some((name, data));
                }
            } else if !self.read_on() {
                return None;
            }
        }
    }

    /// The data of the next event of that name for which this is true.
    fn next_where(&mut self, name: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            let (found, data) = self.next().expect("more events");
            if found == name && is_it(&data) {
                return data;
            }
        }
    }

    /// The next answer of a path.
    fn answer_of(&mut self, path: usize) -> Value {
        self.next_where("answer", |data| data["path"] == path)
    }

    /// The next `answer` or `ask`.
    fn next_shown(&mut self) -> (String, Value) {
        loop {
            let (name, data) = self.next().expect("more events");
            if name != "tick" {
                return (name, data);
            }
        }
    }

    fn tick(&mut self) -> Value {
        self.next_where("tick", |_| true)
    }
}

#[test]
fn what_changes_is_sent_and_what_does_not_is_told_to_be_the_same() {
    let api = start();
    let paths = [
        "health/checks/local-alarms",
        "queues/%2F/q?columns=name,messages",
    ];
    let mut live = Live::open(&api, "administrator", &paths);
    assert_eq!(live.status, 200);
    for header in ["content-type: text/event-stream", "x-accel-buffering: no"] {
        assert!(live.head.contains(header), "{}", live.head);
    }
    let mut first = [Value::Null, Value::Null];
    while first.contains(&Value::Null) {
        let answer = live.next_where("answer", |_| true);
        let path = answer["path"]
            .as_u64()
            .and_then(|path| usize::try_from(path).ok());
        first[path.expect("a number")] = answer;
    }
    let [alarms, queue] = first;
    assert_eq!(alarms["body"], json!({"status": "ok"}));
    assert_eq!(
        queue["body"],
        api.get("/api/queues/%2F/q?columns=name,messages")
    );
    let told_same = |tick: &Value, path: usize| {
        let same = tick["same"].as_array().expect("a list");
        same.iter()
            .any(|one| one[0] == path && one[1].as_u64() <= tick["at_ms"].as_u64())
    };
    live.next_where("tick", |tick| told_same(tick, 0) && told_same(tick, 1));

    *api.node.alarm.lock().expect("the alarm") = true;
    let alarmed = live.next_where("answer", |_| true);
    assert_eq!(
        (&alarmed["path"], &alarmed["status"]),
        (&json!(0), &json!(503))
    );
    live.next_where("tick", |tick| told_same(tick, 0) && told_same(tick, 1));
}

#[test]
fn each_path_is_answered_as_its_user_may_see_it() {
    let api = start();
    let paths = [
        "overview?columns=node",
        "nodes",
        "queues/other/q",
        "nowhere",
        "leveret/live?path=overview",
        "leveret/queues/%2F/q/messages",
        "queues?name=%zz",
    ];
    let mut live = Live::open(&api, "management", &paths);
    let mut answers = vec![Value::Null; paths.len()];
    while answers.contains(&Value::Null) {
        let answer = live.next_where("answer", |_| true);
        let path = answer["path"]
            .as_u64()
            .and_then(|path| usize::try_from(path).ok());
        answers[path.expect("a number")] = answer;
    }
    let statuses: Vec<&Value> = answers.iter().map(|answer| &answer["status"]).collect();
    assert_eq!(json!(statuses), json!([200, 401, 404, 404, 400, 400, 400]));
    assert_eq!(answers[1]["body"]["reason"], "Not monitor user");
    assert_eq!(
        answers[4]["body"]["reason"],
        "/api/leveret/live is not shown live"
    );
    // A monitor is not answered what somebody else was.
    let mut other = Live::open(&api, "monitoring", &paths);
    assert_eq!(other.answer_of(1)["status"], 200);
}

#[test]
fn who_asks_for_nothing_or_too_much_or_is_nobody_is_refused() {
    let api = start();
    let many = vec!["overview"; LIVE_PATHS_MAX + 1];
    for (user, paths, status) in [
        ("administrator", &[][..], 400),
        ("administrator", &many, 400),
        ("administrator", &many[1..], 200),
        ("nobody", &many[1..2], 401),
        ("stranger", &many[1..2], 401),
    ] {
        assert_eq!(
            Live::open(&api, user, paths).status,
            status,
            "{user} {paths:?}"
        );
    }
    let request =
        "GET /api/leveret/live?path=overview HTTP/1.1\r\nHost: x\r\nConnection: close\r\n";
    let known = format!("Authorization: {}\r\n", basic("management", "management"));
    for (headers, status) in [
        (known.clone() + "Accept: application/json\r\n", 406),
        // Another site's page that was made to mean this machine.
        (
            known + "User-Agent: Mozilla/5.0\r\nOrigin: http://x\r\n",
            403,
        ),
        (String::new(), 401),
    ] {
        let request = format!("{request}{headers}\r\n");
        let answer = client::exchange(api.address(Service::Api), request.as_bytes());
        assert_eq!(answer.status, status, "{headers}: {answer:?}");
    }
}

#[test]
fn a_permission_that_is_taken_away_shows_nothing_more_of_its_virtual_host() {
    let api = start();
    let paths = ["queues/%2F/q?columns=name", "queues?columns=name"];
    let mut live = Live::open(&api, "management", &paths);
    live.next_where("answer", |data| data["path"] == 0 && data["status"] == 200);
    api.node.has_no_permissions.store(true, Relaxed);
    let refused = live.next_where("answer", |data| data["path"] == 0);
    assert_eq!(refused["status"], 404, "{refused}");
    // What is listed of all virtual hosts has nothing of this one any more.
    let mut live = Live::open(&api, "management", &paths);
    assert_eq!(live.answer_of(1)["body"], json!([]));
    api.node.has_no_permissions.store(false, Relaxed);
    let listed = live.answer_of(1);
    assert_ne!(listed["body"], json!([]), "{listed}");
}

#[test]
fn who_asks_for_the_head_alone_is_sent_no_events() {
    let api = start();
    for _ in 0..2 * LIVE_STREAMS_EACH_MAX {
        let head = api.admin("HEAD", &target(&["overview"]), "");
        assert_eq!((head.status, head.body.as_str()), (200, ""), "{head:?}");
    }
}

#[test]
fn it_ends_when_the_user_is_not_who_they_were() {
    let as_before = user("management");
    let changes = [
        None,
        Some(fake::user("monitoring")).map(|mut other| {
            other.name = "management".to_owned();
            other
        }),
        Some(as_before).map(|mut other| {
            other.password_hash = "another".to_owned();
            other
        }),
    ];
    for change in changes {
        let api = start();
        let mut live = Live::open(&api, "management", &["overview?columns=node"]);
        live.answer_of(0);
        *api.node.other_user.lock().expect("a user") = Some(("management".to_owned(), change));
        let end = live.next_where("end", |_| true);
        assert!(
            end["reason"]
                .as_str()
                .is_some_and(|why| why.contains("log in anew"))
        );
        assert_eq!(live.next(), None, "nothing comes behind the end");
    }
}

#[test]
fn fifty_pages_that_show_the_same_cost_as_much_as_one() {
    let api = start();
    let open = |_| Live::open(&api, "administrator", &["connections?columns=name"]);
    let mut pages: Vec<Live> = (0..50).map(open).collect();
    for page in &mut pages {
        page.answer_of(0);
    }
    let before = api.node.walks.load(Relaxed);
    let begun = Instant::now();
    for page in &mut pages {
        for _ in 0..3 {
            page.tick();
        }
    }
    let seconds = begun.elapsed().as_secs();
    let made = api.node.walks.load(Relaxed) - before;
    assert!(made <= seconds + 5, "{made} answers in {seconds} s");
    // More than there are workers, and none of them is held.
    assert_eq!(api.get("/api/whoami")["name"], "administrator");
}

#[test]
fn answers_that_take_long_hold_up_neither_ticks_nor_other_requests() {
    let api = start();
    // Nobody is told how the node is meanwhile.
    let held = api.node.alarm.lock().expect("the alarm");
    let paths: Vec<String> = (0..LIVE_PATHS_MAX)
        .map(|n| format!("health/checks/local-alarms?name={n}"))
        .collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let mut live = Live::open(&api, "administrator", &paths);
    for _ in 0..2 {
        assert_eq!(live.tick()["same"], json!([]));
    }
    assert_eq!(api.get("/api/whoami")["name"], "administrator");
    drop(held);
    live.next_where("answer", |answer| answer["status"] == 200);
}

#[test]
fn an_answer_that_is_too_large_is_to_be_asked_for() {
    let api = start();
    api.node.more_queues.store(20_000, Relaxed);
    let mut live = Live::open(&api, "administrator", &["queues"]);
    let ask = live.next_where("ask", |_| true);
    assert_eq!(ask["path"], 0);
    assert_eq!(ask["reason"], "the answer is too large to be sent live");
    live.tick();
}

#[test]
fn answers_that_are_kept_take_so_many_bytes_and_others_are_to_be_asked_for() {
    let api = start();
    let mut rows = 300;
    let size = loop {
        api.node.more_queues.store(rows, Relaxed);
        let size = api.admin("GET", "/api/queues", "").body.len();
        if size > LIVE_ANSWER_BYTES_MAX / 2 {
            break size;
        }
        rows = rows * 5 / 4;
    };
    assert!(size < LIVE_ANSWER_BYTES_MAX, "{size}");
    let fit = LIVE_CACHED_BYTES_MAX / size;
    let (mut answers, mut asks, mut pages) = (0, 0, Vec::new());
    while asks == 0 {
        let paths: Vec<String> = (0..LIVE_PATHS_MAX)
            .map(|n| format!("queues?sort=name&page_size={}{n}", pages.len()))
            .collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let mut page = Live::open(&api, "administrator", &paths);
        for _ in 0..LIVE_PATHS_MAX {
            let (name, data) = page.next_shown();
            if name == "answer" {
                answers += 1;
            } else {
                asks += 1;
                assert_eq!(data["reason"], "too much is shown live at this node");
            }
        }
        pages.push(page);
        // Rows have figures, which are a little longer or shorter each time.
        assert!(answers <= fit * 11 / 10, "{answers} of {fit}");
    }
    assert!(answers >= fit * 8 / 10, "{answers} of {fit}");
    // Those who go make room again.
    drop(pages);
    let end = Instant::now() + Duration::from_secs(60);
    while Live::open(&api, "administrator", &["queues"])
        .next_shown()
        .0
        != "answer"
    {
        assert!(Instant::now() < end, "there is no room again");
    }
}

#[test]
fn who_does_not_read_is_cut_off_and_makes_room_for_another_one() {
    let api = start();
    // As large as it may be and be sent live.
    let mut queues = 300;
    api.node.more_queues.store(queues, Relaxed);
    let unread = Live::open(&api, "administrator", &["queues"]);
    set_socket_recv_buffer_size(unread.answer.get_ref(), 4_096).expect("a small buffer");
    let quiet = |_| Live::open(&api, "administrator", &["overview?columns=node"]);
    let pages: Vec<Live> = (1..LIVE_STREAMS_EACH_MAX).map(quiet).collect();
    assert!(pages.iter().all(|page| page.status == 200));
    let refused = quiet(0);
    assert_eq!(refused.status, 429);
    assert!(refused.head.contains("retry-after: 10"), "{}", refused.head);
    let end = Instant::now() + Duration::from_secs(120);
    loop {
        // Each answer differs from the one before it.
        queues = 300 + (queues + 1) % 200;
        api.node.more_queues.store(queues, Relaxed);
        thread::sleep(Duration::from_millis(300));
        if quiet(0).status == 200 {
            break;
        }
        assert!(Instant::now() < end, "nobody was cut off");
    }
    // Only now: a client that closes makes room, too.
    drop(unread);
}
