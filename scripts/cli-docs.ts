/** Generates docs/cli.md from the table of commands and the table of environment variables. */
import { commands } from '../bin/commands.ts'
import { commandHelp } from '../src/cli/help.ts'
import { VARIABLES } from '../src/config/environment.ts'

/** Variable → key of the configuration that it supplies. */
const SUPPLIES: Readonly<Record<string, string>> = {
  PORT: '`listen`: on all interfaces if the document has `keys` or `open: true`, otherwise on 127.0.0.1',
  LOG_LEVEL: '`log.level`',
  OTEL_EXPORTER_OTLP_ENDPOINT: '`traces.endpoint`',
  OTEL_SERVICE_NAME: '`traces.service`',
}

const HEAD = `# Command line

<!-- Generated from the commands in src/cli and packages by \`npm run docs\`; edit it there. -->

How to start the command: \`npm start --\` in a checkout, \`npx firstlight\` in a folder where the package is installed, or
\`firstlight\` if it is installed globally.

## Exit codes

| code | meaning |
| --- | --- |
| 0 | success; \`serve\` and \`demo\`: ended by a signal after a clean shutdown |
| 1 | failure: an invalid configuration, a port in use, failed requests of \`replay\` or \`load\`, problems found by \`doctor\` |
| 2 | invalid command line or missing file; \`doctor\`: something is unreachable |
| 130 | \`replay\`: interrupted |

## Environment variables

Keys of the configuration take precedence over these variables. An invalid value stops the start.

| variable | effect |
| --- | --- |
`

const TAIL = `| \`FIRSTLIGHT_CONFIG\` | text of the configuration, if there is no \`--config\` |
| \`FIRSTLIGHT_REGION\` | cluster that this gateway serves, of [one document](regions.md#one-document) for an edge and its regions |
| \`NO_COLOR\` | any value: no colours in logs and \`firstlight top\` |

Logs are JSON lines, or text for people on a terminal; \`log.format\` selects one of them.

## Shell completion

\`\`\`sh
source <(firstlight completion bash)      # or zsh
firstlight completion fish | source
\`\`\`

## Commands
`

export async function cliMarkdown(): Promise<string> {
  const variables = Object.entries(VARIABLES).map(
    ([name, { rule }]) => `| \`${name}\` | default of ${SUPPLIES[name]!}; ${rule} |\n`,
  )
  const sections = (await commands()).map(
    (command) => `\n### ${command.name}\n\n\`\`\`text\n${commandHelp(command)}\n\`\`\`\n`,
  )
  return HEAD + variables.join('') + TAIL + sections.join('')
}
