//! Completion of command lines: `autocomplete` lists the commands with a beginning, and writes the
//! scripts with which shells ask for that.

use super::{Context, Failure, Output, commands};

/// Shells that are known, each with its script.
const SCRIPTS: &[(&str, &str)] = &[
    (
        "bash",
        r#"_leveret() {
    local tool=${COMP_WORDS[0]} word=${COMP_WORDS[COMP_CWORD]} at=1
    if [ "${tool##*/}" = leveret ]; then
        if [ "$COMP_CWORD" = 1 ]; then
            local words="serve status list top watch peek route growth impact audit alarms delayed disk redrive import export cluster config storage diagnose perf version ctl"
            COMPREPLY=($(compgen -W "$words" -- "$word"))
            return
        fi
        [ "${COMP_WORDS[1]}" = ctl ] || return
        tool="$tool ctl" at=2
    fi
    [ "$COMP_CWORD" = "$at" ] && COMPREPLY=($($tool autocomplete "$word" 2>/dev/null))
}
complete -o default -F _leveret leveret rabbitmqctl rabbitmq-diagnostics
complete -o default -F _leveret rabbitmq-queues rabbitmq-streams rabbitmq-plugins rabbitmq-upgrade
"#,
    ),
    (
        "zsh",
        r#"#compdef leveret rabbitmqctl rabbitmq-diagnostics rabbitmq-queues rabbitmq-streams rabbitmq-plugins rabbitmq-upgrade
_leveret() {
    local tool=${words[1]} at=2
    if [[ ${tool:t} == leveret ]]; then
        if (( CURRENT == 2 )); then
            compadd serve status list top watch peek route growth impact audit alarms delayed \
                disk redrive import export cluster config storage diagnose perf version ctl
            return
        fi
        [[ ${words[2]} == ctl ]] || { _files; return; }
        (( CURRENT == 3 )) && compadd $($tool ctl autocomplete "${words[CURRENT]}" 2>/dev/null)
        return
    fi
    (( CURRENT == at )) && compadd $($tool autocomplete "${words[CURRENT]}" 2>/dev/null)
}
compdef _leveret leveret rabbitmqctl rabbitmq-diagnostics
compdef _leveret rabbitmq-queues rabbitmq-streams rabbitmq-plugins rabbitmq-upgrade
"#,
    ),
    (
        "fish",
        r#"set -l words serve status list top watch peek route growth impact audit alarms delayed disk redrive import export cluster config storage diagnose perf version ctl
complete -c leveret -n __fish_use_subcommand -f -a "$words"
complete -c leveret -n "__fish_seen_subcommand_from ctl" -f \
    -a "(leveret ctl autocomplete (commandline -ct) 2>/dev/null)"
for tool in rabbitmqctl rabbitmq-diagnostics rabbitmq-queues rabbitmq-streams \
        rabbitmq-plugins rabbitmq-upgrade
    complete -c $tool -f -a "($tool autocomplete (commandline -ct) 2>/dev/null)"
end
"#,
    ),
];

/// `autocomplete bash|zsh|fish` writes the shell's script, any other word lists the commands that
/// begin with it.
pub fn autocomplete(context: &Context<'_>) -> Result<Output, Failure> {
    let beginning = context.argument(0);
    if let Some((_, script)) = SCRIPTS.iter().find(|(shell, _)| *shell == beginning) {
        return Ok(Output::Text(script.trim_end().to_owned()));
    }
    let mut names: Vec<_> = commands::names()
        .filter(|name| name.starts_with(beginning))
        .collect();
    names.sort_unstable();
    Ok(Output::Text(names.join("\n")))
}
