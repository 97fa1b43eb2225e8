/** Runs the checks before the tests side by side. Prints the output of each when it ends; fails if one fails. */
import { spawn } from 'node:child_process'

const CHECKS = ['types', 'lint', 'build:worker']

function run(check) {
  return new Promise((resolve) => {
    const child = spawn('npm', ['run', '--silent', check], { stdio: ['ignore', 'pipe', 'pipe'] })
    let output = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => (output += String(data)))
    child.on('close', (code) => {
      console.log(`${code === 0 ? 'passed' : 'FAILED'}: npm run ${check}\n${output}`)
      resolve(code)
    })
  })
}

const codes = await Promise.all(CHECKS.map(run))
process.exitCode = codes.every((code) => code === 0) ? 0 : 1
