/** Stand-ins for `git clone` and `npm ci`: tests have no network. */
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './run-page.ts'

const NPM = `if [ "$1" = ci ]; then
  ln -s ${JSON.stringify(join(root, 'node_modules'))} node_modules
  cp ${JSON.stringify(join(root, 'worker-configuration.d.ts'))} . 2>/dev/null || true
  exit 0
fi
PATH="$REAL_PATH" exec npm "$@"
`

/** Copies this checkout with its uncommitted changes. */
const gitFor = (checkout: string): string => `[ "$1" = clone ] || exec /usr/bin/env PATH="$REAL_PATH" git "$@"
export PATH="$REAL_PATH"
mkdir firstlight && cd ${JSON.stringify(root)} && git ls-files -z --cached --others --exclude-standard |
  tar --null --ignore-failed-read -T - -cf - 2>/dev/null | tar -xf - -C ${JSON.stringify(checkout)}
cd ${JSON.stringify(checkout)} && git init -q && git add -A && git -c user.name=t -c user.email=t@example.com commit -qm start
`

export interface CheckoutFolder {
  /** Folder of the clone. */
  readonly checkout: string
  /** `PATH` with the stand-ins first. */
  readonly path: string
}

/** Writes the stand-ins into `folder/bin`. `programs`: text of further ones; `$REAL_PATH` finds the real programs. */
export function prepareCheckout(folder: string, programs: Readonly<Record<string, string>> = {}): CheckoutFolder {
  const checkout = join(folder, 'firstlight')
  mkdirSync(join(folder, 'bin'))
  for (const [name, text] of Object.entries({ git: gitFor(checkout), npm: NPM, ...programs })) {
    const file = join(folder, 'bin', name)
    writeFileSync(file, `#!/bin/bash\nREAL_PATH=${JSON.stringify(process.env['PATH'])}\n${text}`)
    chmodSync(file, 0o755)
  }
  return { checkout, path: `${join(folder, 'bin')}:${join(checkout, 'node_modules/.bin')}:${process.env['PATH']}` }
}
