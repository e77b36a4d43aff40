// Starts the language server, `andiron lsp`, over standard input and output.
const { workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

exports.activate = async () => {
  const [command, ...args] = workspace.getConfiguration("andiron").get("command");
  const server = { command, args };
  const options = { documentSelector: [{ language: "sched" }] };
  client = new LanguageClient("andiron", "Andiron", server, options);
  await client.start();
};

exports.deactivate = () => client && client.stop();
