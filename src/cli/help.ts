/** Help texts, generated from the tables of commands. */
import type { Command } from './commands/command.ts'

export function mainHelp(list: readonly Command[]): string {
  const otherwise = list.some(({ name }) => name === 'demo') ? ', or runs the demo if there is none' : ''
  return [
    'Firstlight: one OpenAI endpoint over a fleet of LLM engines.',
    '',
    'Usage: firstlight [COMMAND] [FLAGS]',
    '',
    'Commands:',
    ...columns(list.map(({ name, summary }) => [name, summary])),
    '',
    `Without a command: serves ./firstlight.yaml${otherwise}.`,
    'Run firstlight COMMAND --help for flags and examples, firstlight --version for the version.',
  ].join('\n')
}

export function commandHelp(command: Command): string {
  const flags = Object.entries(command.flags).map(([name, flag]): [string, string] => {
    const short = flag.short === undefined ? '' : `-${flag.short}, `
    const value = flag.type === 'string' ? ` ${flag.value ?? 'VALUE'}` : ''
    return [`${short}--${name}${value}`, flag.about]
  })
  return [
    command.summary,
    '',
    `Usage: firstlight ${command.name}${command.positionals === null ? '' : ` ${command.positionals}`} [FLAGS]`,
    '',
    'Flags:',
    ...columns([...flags, ['-h, --help', 'Show this help.']]),
    '',
    command.examples.length === 1 ? 'Example:' : 'Examples:',
    ...command.examples.map((example) => `  ${example}`),
  ].join('\n')
}

function columns(rows: readonly (readonly [string, string])[]): string[] {
  const width = Math.max(...rows.map(([left]) => left.length))
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`)
}
