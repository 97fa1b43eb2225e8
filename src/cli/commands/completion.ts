/** Completion scripts of shells. */
import type { Command } from './command.ts'
import { UsageError } from '../../platform/node/usage-error.ts'

const SHELLS = ['bash', 'zsh', 'fish'] as const

type Shell = (typeof SHELLS)[number]

/** @param load all commands, which the scripts complete with their flags */
export function completionCommand(load: () => Promise<readonly Command[]>): Command {
  return {
    name: 'completion',
    summary: 'Print a completion script for bash, zsh or fish.',
    examples: ['source <(firstlight completion bash)', 'firstlight completion fish | source'],
    flags: {},
    positionals: '<bash|zsh|fish>',
    async run({ positionals }, io) {
      const [shell] = positionals
      if (!SHELLS.some((one) => one === shell) || positionals.length !== 1)
        throw new UsageError(
          `completion needs one shell, not ${JSON.stringify(positionals.join(' '))}.`,
          `Name one of ${SHELLS.join(', ')}.`,
        )
      io.out(script(shell as Shell, await load()))
      return 0
    },
  }
}

const flagsOf = (command: Command): string[] => [...Object.keys(command.flags), 'help'].map((name) => `--${name}`)

function script(shell: Shell, list: readonly Command[]): string {
  const names = list.map(({ name }) => name)
  if (shell === 'fish')
    return [
      ...list.map(
        ({ name, summary }) => `complete -c firstlight -n __fish_use_subcommand -f -a ${name} -d ${quoted(summary)}`,
      ),
      ...list.flatMap(({ name, flags }) =>
        Object.entries(flags).map(
          ([flag, { about, type }]) =>
            `complete -c firstlight -n ${quoted(`__fish_seen_subcommand_from ${name}`)} -l ${flag} -d ` +
            `${quoted(about)}` +
            (type === 'string' ? ' -r' : ''),
        ),
      ),
    ].join('\n')
  const cases = list.map((command) => `    ${command.name}) words=${quoted(flagsOf(command).join(' '))} ;;`)
  return [
    // zsh runs functions of bash by its own emulation.
    ...(shell === 'zsh' ? ['autoload -U +X bashcompinit && bashcompinit'] : []),
    '_firstlight() {',
    '  local words',
    '  case "${COMP_WORDS[1]}" in',
    ...cases,
    '  esac',
    `  if [ "$COMP_CWORD" -eq 1 ]; then words=${quoted(names.join(' '))}; fi`,
    '  COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))',
    '}',
    'complete -o default -F _firstlight firstlight',
  ].join('\n')
}

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`
