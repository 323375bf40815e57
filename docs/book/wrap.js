// Allows a line break after each part of a long name in a table.
for (const code of document.querySelectorAll("td code")) {
    code.innerHTML = code.innerHTML.replace(/(::|[_.\/]|&gt;(?=\())(?=[\w(])/g, "$1<wbr>");
}
